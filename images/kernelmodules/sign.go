package kernelmodules

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Signatures is the source of the signatures of an image's modules.
type Signatures struct {
	Certificate *x509.Certificate // of the key; everything is checked against it
	// what they are made from, for the cache; "" by the key, here and now
	made string
	of   func(ctx context.Context, set *kbuild.Set, f kbuild.File) (der []byte, err error)
}

// SignaturesBy makes the signatures with a key.
func SignaturesBy(signer *sign.Signer) Signatures {
	return Signatures{
		Certificate: signer.Certificate,
		of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
			hash, err := hashOf(set)
			if err != nil {
				return nil, err
			}
			return signer.SignFile(ctx, f.Path, hash)
		},
	}
}

// ErrOther means that a module is not one of those that were signed.
var ErrOther = errors.New("it is not the module that was signed")

// SignaturesOf returns the signatures that the precompiled modules of an image have, to put them on
// modules that were compiled again from the same sources: the private key is not needed, because
// equal modules have equal signatures. A module without a signature is sign.ErrUnsigned. Signing a
// module that differs from all of the image's is ErrOther.
func SignaturesOf(
	ctx context.Context,
	store *fetch.Store,
	img v1.Image,
	cert *x509.Certificate,
) (Signatures, error) {
	byContent := map[string][]byte{}
	err := eachModule(ctx, store, img, func(set *kbuild.Set, f kbuild.File) error {
		c, err := contentOf(ctx, set, f)
		if err != nil {
			return err
		}
		byContent[c.sum], err = signatureOf(f.Path)
		return err
	})
	if err != nil {
		return Signatures{}, fmt.Errorf("take over signatures: %w", err)
	}
	return Signatures{
		Certificate: cert,
		of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
			c, err := contentOf(ctx, set, f)
			if err != nil {
				return nil, err
			}
			der, ok := byContent[c.sum]
			if !ok {
				return nil, fmt.Errorf("module %s for kernel %s, compiled again: %w", f.Name, set.Key.Release, ErrOther)
			}
			return der, nil
		},
	}, nil
}

// eachModule calls f for each precompiled module of an image.
func eachModule(
	ctx context.Context,
	store *fetch.Store,
	img v1.Image,
	f func(*kbuild.Set, kbuild.File) error,
) error {
	layers, err := moduleLayers(ctx, store, img)
	if err != nil {
		return err
	}
	for _, l := range layers {
		if !l.modules {
			continue
		}
		err := Each(ctx, store, l, func(set *kbuild.Set, _ string, _ bool) error {
			for _, m := range set.Modules {
				if err := f(set, m); err != nil {
					return fmt.Errorf("module %s for kernel %s: %w", m.Name, set.Key.Release, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func signatureOf(path string) (der []byte, err error) {
	f, err := bounded.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	_, der, err = sign.Split(f, info.Size())
	if err != nil {
		return nil, err
	}
	if len(der) == 0 {
		return nil, sign.ErrUnsigned
	}
	return der, nil
}

// hashOf is the hash that the set's kernel signs its own modules with, which that kernel has built
// in.
func hashOf(set *kbuild.Set) (crypto.Hash, error) {
	if set.SigHash == "" {
		return 0, fmt.Errorf(
			"sign the modules %s: kernel %s was built without module signatures (CONFIG_MODULE_SIG)",
			set.Key,
			set.Key.Release,
		)
	}
	hash, err := sign.ParseHash(set.SigHash)
	if err != nil {
		return 0, fmt.Errorf("sign the modules %s: %w", set.Key, err)
	}
	return hash, nil
}

// content is what is signed of a module: all of it but its signatures.
type content struct {
	hash   crypto.Hash // to sign with
	digest []byte      // with that hash
	sum    string      // SHA-256, which names the module
	size   int64       // bytes
}

func contentOf(ctx context.Context, set *kbuild.Set, f kbuild.File) (c content, err error) {
	c.hash, err = hashOf(set)
	if err != nil {
		return c, err
	}
	c.digest, c.size, err = sign.Digest(ctx, f.Path, c.hash)
	if err != nil {
		return c, err
	}
	sum := c.digest
	if c.hash != crypto.SHA256 {
		sum, _, err = sign.Digest(ctx, f.Path, crypto.SHA256)
		if err != nil {
			return c, err
		}
	}
	c.sum = hex.EncodeToString(sum)
	return c, nil
}

// Sign adds the sets of a layer to tree, with signatures. The sets lie in the store's folder while
// that happens.
func (s Signatures) Sign(
	ctx context.Context,
	store *fetch.Store,
	l v1.Layer,
	tree *rootfs.Tree,
) error {
	return Each(ctx, store, l, func(set *kbuild.Set, work string, forKMM bool) error {
		if _, err := hashOf(set); err != nil {
			return err
		}
		signed := filepath.Join(work, "signed")
		if err := os.Mkdir(signed, 0o755); err != nil {
			return err
		}
		made, err := set.Sign(
			ctx,
			signed,
			s.Certificate,
			func(ctx context.Context, f kbuild.File) ([]byte, error) { return s.of(ctx, set, f) },
		)
		if err != nil {
			return err
		}
		made, err = (kbuild.Cache{Dir: filepath.Join(work, "changed")}).Put(ctx, made)
		if err != nil {
			return err
		}
		if err := Add(tree, made); err != nil || !forKMM {
			return err
		}
		return AddKMM(tree, made)
	})
}

// Package modsign signs the modules in images, with a key or with signatures that an offline signer made.
package modsign

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/kmm"
	"github.com/driver-container/driver-container/images/moduleset"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Signatures is the source of the signatures of an image's modules.
type Signatures struct {
	Certificate *x509.Certificate // of the key; everything is checked against it
	made        string            // what they are made from, for the cache; "" by the key, here and now
	of          func(ctx context.Context, set *kbuild.Set, f kbuild.File) (der []byte, err error)
}

// SignWith makes the signatures with a key.
func SignWith(signer *sign.Signer) Signatures {
	return Signatures{Certificate: signer.Certificate, of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
		hash, err := hashOf(set)
		if err != nil {
			return nil, err
		}
		return signer.SignFile(ctx, f.Path, hash)
	}}
}

// sign makes the signed set, in work.
func (s Signatures) sign(ctx context.Context, set *kbuild.Set, work string) (*kbuild.Set, error) {
	if _, err := hashOf(set); err != nil {
		return nil, err
	}
	return set.Sign(ctx, work, s.Certificate, func(ctx context.Context, f kbuild.File) ([]byte, error) { return s.of(ctx, set, f) })
}

// hashOf is the hash that the set's kernel signs its own modules with, which that kernel has built in.
func hashOf(set *kbuild.Set) (crypto.Hash, error) {
	if set.SigHash == "" {
		return 0, fmt.Errorf("sign the modules %s: kernel %s was built without module signatures (CONFIG_MODULE_SIG)", set.Key, set.Key.Release)
	}
	hash, err := sign.ParseHash(set.SigHash)
	if err != nil {
		return 0, fmt.Errorf("sign the modules %s: %w", set.Key, err)
	}
	return hash, nil
}

// Sign adds the sets of a layer to tree, with signatures. The sets lie in the store's folder while that
// happens.
func (s Signatures) Sign(ctx context.Context, store *fetch.Store, l v1.Layer, tree *rootfs.Tree) error {
	forKMM, err := moduleset.ForKMM(ctx, l)
	if err != nil {
		return err
	}
	return moduleset.Each(ctx, store, l, func(set *kbuild.Set, work string) error {
		signed := filepath.Join(work, "signed")
		if err := os.Mkdir(signed, 0o755); err != nil {
			return err
		}
		made, err := s.sign(ctx, set, signed)
		if err != nil {
			return err
		}
		if made, err = (kbuild.Cache{Dir: filepath.Join(work, "changed")}).Put(ctx, made); err != nil {
			return err
		}
		if err := moduleset.Add(tree, made); err != nil || !forKMM {
			return err
		}
		return kmm.Add(tree, made)
	})
}

package modsign

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/moduleset"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// ErrOther means that a module is not one of those that were signed.
var ErrOther = errors.New("it is not the module that was signed")

// SignaturesOf returns the signatures that the precompiled modules of an image have, to put them on modules
// that were compiled again from the same sources: the private key is not needed, because equal modules have
// equal signatures. A module without a signature is sign.ErrUnsigned. Signing a module that differs from all
// of the image's is ErrOther.
func SignaturesOf(ctx context.Context, store *fetch.Store, img v1.Image, cert *x509.Certificate) (Signatures, error) {
	none := Signatures{}
	layers, err := moduleLayers(ctx, img)
	if err != nil {
		return none, fmt.Errorf("take over signatures: %w", err)
	}
	byContent := map[string][]byte{}
	for _, l := range layers {
		if !l.modules {
			continue
		}
		if err := moduleset.Each(ctx, store, l, func(set *kbuild.Set, _ string) error {
			for _, f := range set.Modules {
				sum, err := contentOf(ctx, set, f)
				if err == nil {
					byContent[sum], err = signatureOf(f.Path)
				}
				if err != nil {
					return fmt.Errorf("module %s for kernel %s: %w", f.Name, set.Key.Release, err)
				}
			}
			return nil
		}); err != nil {
			return none, fmt.Errorf("take over signatures: %w", err)
		}
	}
	return Signatures{Certificate: cert, of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
		sum, err := contentOf(ctx, set, f)
		if err != nil {
			return nil, err
		}
		der, ok := byContent[sum]
		if !ok {
			return nil, fmt.Errorf("module %s for kernel %s, compiled again: %w", f.Name, set.Key.Release, ErrOther)
		}
		return der, nil
	}}, nil
}

// contentOf returns the SHA-256 of a module without its signature.
func contentOf(ctx context.Context, set *kbuild.Set, f kbuild.File) (string, error) {
	hash, err := hashOf(set)
	if err != nil {
		return "", err
	}
	digest, _, err := sign.Digest(ctx, f.Path, hash)
	if err != nil {
		return "", err
	}
	return contentSum(ctx, f.Path, hash, digest)
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
	if _, der, err = sign.Split(f, info.Size()); err == nil && len(der) == 0 {
		err = sign.ErrUnsigned
	}
	return der, err
}

package kbuild

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod/sign"
)

// Sign copies the modules into work, an existing folder, with the signature that the function signature
// returns for each, and returns the signed set, which has the same key and new descriptions. It omits the
// modules' earlier signatures. It checks every copy against cert. After an error none of the copies is left.
func (s *Set) Sign(ctx context.Context, work string, cert *x509.Certificate, signature func(context.Context, File) ([]byte, error)) (_ *Set, err error) {
	signed := &Set{Dir: work, Key: s.Key, SigHash: s.SigHash, Certificate: cert.Raw}
	defer func() {
		if err != nil {
			for _, f := range s.Modules {
				if removed := os.Remove(filepath.Join(work, f.Name+".ko")); removed != nil && !errors.Is(removed, os.ErrNotExist) {
					err = errors.Join(err, removed)
				}
			}
		}
	}()
	for _, f := range s.Modules {
		to := filepath.Join(work, f.Name+".ko")
		der, err := signature(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("sign %s of %s: %w", f.Name, s.Key, err)
		}
		if err := sign.Attach(ctx, f.Path, to, der); err != nil {
			return nil, fmt.Errorf("sign %s of %s: %w", f.Name, s.Key, err)
		}
		if _, err := sign.VerifyFile(ctx, to, []*x509.Certificate{cert}); err != nil {
			return nil, fmt.Errorf("sign %s of %s: the signature does not hold: %w", f.Name, s.Key, err)
		}
		copied, err := readFile(f.Name, to)
		if err != nil {
			return nil, err
		}
		signed.Modules = append(signed.Modules, copied)
	}
	return signed, nil
}

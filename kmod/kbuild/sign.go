package kbuild

import (
	"context"
	"crypto/x509"
	"fmt"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod/sign"
)

// Sign copies the modules into work, an existing folder, with the signature that the function
// signature returns for each, and returns the signed set, which has the same key and new
// descriptions. It omits the modules' earlier signatures. It checks every copy against cert. After
// an error the caller removes work.
func (s *Set) Sign(
	ctx context.Context,
	work string,
	cert *x509.Certificate,
	signature func(context.Context, File) ([]byte, error),
) (*Set, error) {
	signed := &Set{
		Dir:         work,
		Key:         s.Key,
		SigHash:     s.SigHash,
		Certificate: cert.Raw,
		Omitted:     s.Omitted,
	}
	for _, f := range s.Modules {
		to := filepath.Join(work, f.Name+".ko")
		copied, err := f.sign(ctx, to, cert, signature)
		if err != nil {
			return nil, fmt.Errorf("sign %s of %s: %w", f.Name, s.Key, err)
		}
		signed.Modules = append(signed.Modules, copied)
	}
	return signed, nil
}

func (f File) sign(
	ctx context.Context,
	to string,
	cert *x509.Certificate,
	signature func(context.Context, File) ([]byte, error),
) (File, error) {
	der, err := signature(ctx, f)
	if err != nil {
		return f, err
	}
	err = sign.Attach(ctx, f.Path, to, der)
	if err != nil {
		return f, err
	}
	_, err = sign.VerifyFile(ctx, to, []*x509.Certificate{cert})
	if err != nil {
		return f, err
	}
	return readFile(f.Name, to)
}

// SigningCertificate is the certificate of the set's signatures; nil when there is none, or when it
// cannot be read.
func (s *Set) SigningCertificate() *x509.Certificate {
	if s == nil || len(s.Certificate) == 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return nil
	}
	return cert
}

// SignedBy says for people who signed the set: "ACME modules (sha256, key 1A:AE)"; "" when nobody
// did.
func (s *Set) SignedBy() string {
	if s == nil {
		return ""
	}
	f, ok := s.File("nvidia")
	if !ok || !f.Info.Signed {
		return ""
	}
	name := f.Info.Signer
	id := f.Info.SigKeyID
	if cert := s.SigningCertificate(); cert != nil {
		name = sign.Owner(cert)
		if len(cert.SubjectKeyId) > 0 {
			id = sign.Colons(cert.SubjectKeyId)
		}
	}
	return fmt.Sprintf("%s (%s, key %s)", name, f.Info.SigHash, id)
}

package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"io"
	"slices"
)

func noSigner() error { return fmt.Errorf("%w: it has no signer", ErrUnsupported) }

// VerifyFile returns the certificate whose key signed the module in a file. Like kernels it takes the
// signature that is appended last. Errors wrap ErrUnsigned, ErrMalformed, ErrForeign, ErrMismatch,
// ErrAttributes or ErrUnsupported; any other is a read error.
func VerifyFile(ctx context.Context, path string, certs []*x509.Certificate) (*x509.Certificate, error) {
	m, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("verify the signature: %w", err)
	}
	defer m.Close()
	length, der, err := Split(m, m.size)
	if err == nil && der == nil {
		err = ErrUnsigned
	}
	if err != nil {
		return nil, fmt.Errorf("verify the signature of %s: %w", path, err)
	}
	cert, err := Verify(ctx, io.NewSectionReader(m, 0, length), der, certs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

// Verify returns the certificate whose key made the signature over the content. The rules are the kernel's
// (crypto/asymmetric_keys/pkcs7_verify.c, pkcs7_trust.c) with the certificates as its keyring, with one
// exception: Verify does not follow a chain of certificates inside the signature. Errors are VerifyFile's.
// Verify reads the content only when a certificate matches.
func Verify(ctx context.Context, content io.Reader, der []byte, certs []*x509.Certificate) (*x509.Certificate, error) {
	infos, err := decode(der)
	if err != nil {
		return nil, fmt.Errorf("verify a signature: %w", err)
	}
	c, err := match(infos, certs)
	if err != nil {
		return nil, fmt.Errorf("verify a signature: %w", err)
	}
	digest, err := digestOf(ctx, content, c.hash)
	if err != nil {
		return nil, fmt.Errorf("verify a signature: read the module: %w", err)
	}
	// Several certificates have one name and number when the key was generated again.
	for _, cert := range c.certs {
		if check(cert.PublicKey, c.hash, digest, c.info.signature) {
			return cert, nil
		}
	}
	return nil, fmt.Errorf("verify a signature (%s): %w", c.info.signer(), ErrMismatch)
}

// candidate is a signature and the certificates that can belong to it.
type candidate struct {
	info  signerInfo
	hash  crypto.Hash
	certs []*x509.Certificate
}

// match returns the first signature whose key is that of a given certificate. As in the kernel, that
// signature decides.
func match(infos []signerInfo, certs []*x509.Certificate) (candidate, error) {
	if slices.ContainsFunc(infos, func(s signerInfo) bool { return s.attributes }) {
		return candidate{}, ErrAttributes
	}
	err := noSigner()
	for _, info := range infos {
		a, known := info.hash()
		if !known {
			err = fmt.Errorf("%w: hash %s with key algorithm %s", ErrUnsupported, info.digest, info.kind())
			continue
		}
		c := candidate{info: info, hash: a.hash}
		for _, cert := range certs {
			if info.names(cert) {
				c.certs = append(c.certs, cert)
			}
		}
		if c.certs != nil {
			return c, nil
		}
		err = fmt.Errorf("%w: %s", ErrForeign, info.signer())
	}
	return candidate{}, err
}

// names reports whether the signature names this certificate's key.
func (s signerInfo) names(cert *x509.Certificate) bool {
	if s.issuer != nil {
		return bytes.Equal(s.issuer, cert.RawIssuer) && bytes.Equal(s.serial, serialOf(cert))
	}
	return len(s.keyID) > 0 && bytes.Equal(s.keyID, cert.SubjectKeyId)
}

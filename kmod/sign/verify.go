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

var errNoSigner = fmt.Errorf("%w: it has no signer", ErrUnsupported)

// VerifyFile returns the certificate whose key signed the module in a file. Like kernels it takes
// the signature that is appended last. Errors wrap ErrUnsigned, ErrMalformed, ErrForeign,
// ErrMismatch, ErrAttributes or ErrUnsupported; any other is a read error.
func VerifyFile(
	ctx context.Context,
	path string,
	certs []*x509.Certificate,
) (*x509.Certificate, error) {
	m, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("verify the signature: %w", err)
	}
	defer m.Close()
	length, der, err := Split(m, m.size)
	if err != nil {
		return nil, fmt.Errorf("verify the signature of %s: %w", path, err)
	}
	if der == nil {
		return nil, fmt.Errorf("verify the signature of %s: %w", path, ErrUnsigned)
	}
	cert, err := Verify(ctx, io.NewSectionReader(m, 0, length), der, certs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

// Verify returns the certificate whose key made the signature over the content. The rules are the
// kernel's (crypto/asymmetric_keys/pkcs7_verify.c, pkcs7_trust.c) with the certificates as its
// keyring, with one exception: Verify does not follow a chain of certificates inside the signature.
// Errors are VerifyFile's. Verify reads the content only when a certificate matches.
func Verify(
	ctx context.Context,
	content io.Reader,
	der []byte,
	certs []*x509.Certificate,
) (*x509.Certificate, error) {
	infos, err := decode(der)
	if err != nil {
		return nil, fmt.Errorf("verify a signature: %w", err)
	}
	info, hash, candidates, err := match(infos, certs)
	if err != nil {
		return nil, fmt.Errorf("verify a signature: %w", err)
	}
	digest, err := digestOf(ctx, content, hash)
	if err != nil {
		return nil, fmt.Errorf("verify a signature: read the module: %w", err)
	}
	// Several certificates have one name and number when the key was generated again.
	for _, cert := range candidates {
		if check(cert.PublicKey, hash, digest, info.Signature) {
			return cert, nil
		}
	}
	return nil, fmt.Errorf("verify a signature (%s): %w", info.signer(), ErrMismatch)
}

// match returns the first signature whose key is that of a given certificate, and all such
// certificates. As in the kernel, that signature decides.
func match(
	infos []signerInfo,
	certs []*x509.Certificate,
) (info signerInfo, hash crypto.Hash, candidates []*x509.Certificate, err error) {
	if slices.ContainsFunc(infos, func(s signerInfo) bool { return s.Attributes.FullBytes != nil }) {
		return info, 0, nil, ErrAttributes
	}
	err = errNoSigner
	for _, info := range infos {
		a, known := info.hash()
		if !known {
			err = fmt.Errorf(
				"%w: hash %s with key algorithm %s",
				ErrUnsupported,
				info.Digest.Algorithm,
				info.kind(),
			)
			continue
		}
		candidates := slices.DeleteFunc(
			slices.Clone(certs),
			func(c *x509.Certificate) bool { return !info.names(c) },
		)
		if len(candidates) > 0 {
			return info, a.hash, candidates, nil
		}
		err = fmt.Errorf("%w: %s", ErrForeign, info.signer())
	}
	return info, 0, nil, err
}

// names reports whether the signature names this certificate's key.
func (s signerInfo) names(cert *x509.Certificate) bool {
	issuer, serial := s.name()
	if issuer != nil {
		return bytes.Equal(issuer, cert.RawIssuer) && bytes.Equal(serial, serialOf(cert).Bytes)
	}
	id := s.keyID()
	return len(id) > 0 && bytes.Equal(id, cert.SubjectKeyId)
}

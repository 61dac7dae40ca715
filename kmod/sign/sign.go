// Package sign makes, attaches, removes and verifies the signatures that Linux expects at the end
// of a module: a detached PKCS#7 SignedData without attributes and certificates, then twelve bytes
// with its length, then a line of text. Its signatures equal those of the kernel's own
// scripts/sign-file, byte for byte.
//
// It does not decide which keys to trust (the caller gives the certificates) and does not check
// dates, usage or chain of a certificate (kernels do not check them for modules either). It neither
// strips nor compresses modules: strip first, then sign, then compress.
package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// The faults of a signature, and what the kernel does about each with module.sig_enforce (or Secure
// Boot) and without (kernel/module/signing.c, crypto/asymmetric_keys/pkcs7_*.c; measured on Linux
// 6.1).
var (
	// ErrUnsigned: there is no signature. The kernel refuses the module with EKEYREJECTED when it
	// enforces; else it loads the module with taint E.
	ErrUnsigned = failure.New(failure.Content, "no signature is appended")
	// ErrMalformed: the signature cannot be read. The kernel always refuses, with EBADMSG (EINVAL
	// for versions and types that it does not know).
	ErrMalformed = failure.New(failure.Content, "the signature is malformed")
	// ErrForeign: the key of none of the given certificates made it. The kernel refuses with
	// EKEYREJECTED when it enforces.
	ErrForeign = failure.New(failure.Content, "the signature was made with another key")
	// ErrMismatch: the signature is for other bytes, or damaged. The kernel always refuses, with
	// EKEYREJECTED and no line in its log.
	ErrMismatch = failure.New(
		failure.Content,
		"the signature does not fit the module: the module or the signature was changed after signing",
	)
	// ErrAttributes: the signature has signed attributes. For modules the kernel always refuses
	// them, with EKEYREJECTED.
	ErrAttributes = failure.New(
		failure.Content,
		"the signature has signed attributes, which kernels refuse for modules: sign with openssl cms -noattr, or scripts/sign-file",
	)
	// ErrUnsupported: the signature is not PKCS#7, or has an algorithm that this package does not
	// know. The kernel calls it "unsupported crypto" and refuses with EKEYREJECTED when it
	// enforces.
	ErrUnsupported = failure.New(
		failure.Content,
		"the signature is of a kind that is not supported",
	)
)

// Signer is a private key and the certificate by which kernels know it.
type Signer struct {
	Key         crypto.Signer // RSA or ECDSA; may be in a token
	Certificate *x509.Certificate
}

// NewSigner checks that kernels can use the key and that one of the certificates belongs to it. An
// expired certificate is no error, because kernels do not check the dates.
func NewSigner(key crypto.Signer, certs ...*x509.Certificate) (*Signer, error) {
	if key == nil || len(certs) == 0 || certs[0] == nil {
		return nil, errors.New("sign modules: a key and its certificate are needed")
	}
	if err := usable(key.Public()); err != nil {
		return nil, fmt.Errorf("sign modules: %w", err)
	}
	own := slices.IndexFunc(
		certs,
		func(c *x509.Certificate) bool { return sameKey(key.Public(), c.PublicKey) },
	)
	if own < 0 {
		return nil, fmt.Errorf(
			"sign modules: the certificate of %q (serial number %s) is not that of the private key: give the two that were made together",
			subject(certs[0]),
			Colons(serialOf(certs[0]).Bytes),
		)
	}
	return &Signer{Key: key, Certificate: certs[own]}, nil
}

// LoadSigner reads a private key and its certificate, see keyfile.LoadPrivate. The certificate
// comes from certFile (see keyfile.LoadCertificates; of several, the one of the key counts);
// certFile is "" when keyFile also has the certificate.
func LoadSigner(keyFile, certFile string, pass keyfile.Passphrase) (*Signer, error) {
	key, certs, err := keyfile.LoadPrivate(keyFile, pass)
	if err != nil {
		return nil, err
	}
	if certFile == "" {
		certFile = keyFile
	} else if certs, err = keyfile.LoadCertificates(certFile); err != nil {
		return nil, fmt.Errorf("load the key %s: %w", keyFile, err)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf(
			"load the key %s: it holds no certificate: give the file that has the key's",
			keyFile,
		)
	}
	s, err := NewSigner(key, certs...)
	if err != nil {
		return nil, fmt.Errorf(
			"load the key %s with the certificate of %s: %w",
			keyFile,
			certFile,
			err,
		)
	}
	return s, nil
}

// usable returns an error unless kernels can check signatures of this key (crypto/rsa_helper.c and
// ecdsa.c refuse other kinds).
func usable(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits != 2048 && bits != 3072 && bits != 4096 {
			return fmt.Errorf("an RSA key of %d bits: kernels check keys of 2048, 3072 and 4096 bits only", bits)
		}
		return nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return fmt.Errorf("an ECDSA key on %s: use P-256 or P-384", k.Curve.Params().Name)
		}
		return nil
	}
	return fmt.Errorf("a key of type %T: kernels know RSA, and from 5.13 on ECDSA", key)
}

func sameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// Sign reads the module, which must have no signature, to its end and returns the PKCS#7 signature
// over it. An RSA key gives the same bytes every time. hash is one that ParseHash returns, usually
// that of the kernel's CONFIG_MODULE_SIG_HASH, which is always built in.
func (s *Signer) Sign(ctx context.Context, module io.Reader, hash crypto.Hash) ([]byte, error) {
	digest, err := digestOf(ctx, module, hash)
	if err != nil {
		return nil, fmt.Errorf("sign a module: %w", err)
	}
	signature, err := s.Key.Sign(rand.Reader, digest, hash)
	if err != nil {
		return nil, fmt.Errorf("sign a module with the key of %q: %w", subject(s.Certificate), err)
	}
	der, err := Wrap(s.Certificate, hash, digest, signature)
	if errors.Is(err, ErrMismatch) { // found here, and not on a node
		return nil, fmt.Errorf(
			"sign a module: what the key made does not fit the certificate of %q: the key or its token is faulty, or the certificate is another key's",
			subject(s.Certificate),
		)
	}
	return der, err
}

// Wrap returns the PKCS#7 for a plain signature over the module's digest that was made in another
// place: RSA PKCS#1 v1.5, or ECDSA in DER. The error wraps ErrMismatch when the certificate's key
// did not make it over this digest.
func Wrap(cert *x509.Certificate, hash crypto.Hash, digest, signature []byte) ([]byte, error) {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.hash == hash && !a.weak })
	if i < 0 {
		return nil, fmt.Errorf("the hash %s cannot sign modules: use sha256", hash)
	}
	if err := usable(cert.PublicKey); err != nil {
		return nil, fmt.Errorf("sign modules: %w", err)
	}
	if !check(cert.PublicKey, hash, digest, signature) {
		return nil, fmt.Errorf("a signature by the key of %q: %w", subject(cert), ErrMismatch)
	}
	return encode(cert, algorithms[i], signature)
}

// SignFile returns a signature over the module in a file, without the signatures that the file has.
// It does not change the file.
func (s *Signer) SignFile(ctx context.Context, path string, hash crypto.Hash) ([]byte, error) {
	m, err := openUnsigned(path)
	if err != nil {
		return nil, fmt.Errorf("sign the module: %w", err)
	}
	defer m.Close()
	der, err := s.Sign(ctx, m.content(), hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return der, nil
}

// subject names the owner of a certificate for people.
func subject(cert *x509.Certificate) string { return kmsg.Printable(cert.Subject.String()) }

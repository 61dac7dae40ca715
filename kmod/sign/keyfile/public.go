package keyfile

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// LoadPublic reads the public keys of a file: PEM with one or more, or DER, of public keys (PKIX)
// and certificates. A certificate must be valid now; its issuer is not looked at, because the
// caller trusts the file. Without an error there is at least one key.
func LoadPublic(file string, now time.Time) ([]crypto.PublicKey, error) {
	items, err := readItems(file)
	if err != nil {
		return nil, fmt.Errorf("load the public key %s: %w", file, err)
	}
	var keys []crypto.PublicKey
	for _, item := range items {
		if item.private() {
			continue
		}
		key, err := item.public(now)
		if err != nil {
			return nil, fmt.Errorf("load the public key %s: %w", file, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf(
			"load the public key %s: it holds a private key (%s) and no public one: write the public key with: openssl pkey -in KEY -pubout -out K.pub, or cosign public-key --key KEY",
			file,
			items[0].kind,
		)
	}
	return keys, nil
}

func (i item) public(now time.Time) (crypto.PublicKey, error) {
	switch i.kind {
	case kindPublicRSA:
		return x509.ParsePKCS1PublicKey(i.der)
	case kindPublic:
		return x509.ParsePKIXPublicKey(i.der)
	}
	cert, err := x509.ParseCertificate(i.der)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its certificate: %w", err)
	case now.After(cert.NotAfter):
		return nil, fmt.Errorf(
			"its certificate expired on %s: %w",
			cert.NotAfter.UTC().Format(time.DateOnly),
			ErrExpired,
		)
	case now.Before(cert.NotBefore):
		return nil, fmt.Errorf(
			"its certificate is not valid before %s: is the clock of this machine right?",
			cert.NotBefore.UTC().Format(time.DateOnly),
		)
	}
	return cert.PublicKey, nil
}

// ErrExpired says that a certificate with a public key is no longer valid.
var ErrExpired = errors.New(
	"give one that is valid, or the public key alone if you trust it without a date",
)

// LoadCertificates reads the certificates of a file: PEM with one or more (it skips keys and other
// blocks), or DER. Without an error there is at least one.
func LoadCertificates(file string) ([]*x509.Certificate, error) {
	certs, err := certificates(file)
	if err != nil {
		return nil, fmt.Errorf("load the certificate %s: %w", file, err)
	}
	return certs, nil
}

func certificates(file string) (certs []*x509.Certificate, err error) {
	items, err := readItems(file)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item.kind != kindCertificate {
			continue
		}
		cert, err := x509.ParseCertificate(item.der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	switch {
	case len(certs) > 0:
		return certs, nil
	case items[0].kind == kindPKCS12:
		return nil, errors.New(
			"it is PKCS#12: take the certificate out with: openssl pkcs12 -in FILE -nokeys -out cert.pem",
		)
	}
	return nil, errors.New("it holds a key and no certificate")
}

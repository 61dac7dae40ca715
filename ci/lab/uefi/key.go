package uefi

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the usual key identifier, no security depends on it
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Key is a key with a self-signed certificate, as `openssl req -x509` makes it for code signing: RSA of 2048
// bits, SHA-256.
type Key struct {
	Private     *rsa.PrivateKey
	Certificate *x509.Certificate
}

// NewKey makes a key whose certificate has this common name. It takes some tenths of a second.
func NewKey(name string) (*Key, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make the key %q: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 159))
	if err != nil {
		return nil, fmt.Errorf("make the key %q: %w", name, err)
	}
	id := sha1.Sum(x509.MarshalPKCS1PublicKey(&private.PublicKey)) //nolint:gosec // RFC 5280, 4.2.1.2; the kernel shows it in /proc/keys
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true, SubjectKeyId: id[:], SignatureAlgorithm: x509.SHA256WithRSA,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, fmt.Errorf("make the certificate %q: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the certificate %q: %w", name, err)
	}
	return &Key{private, cert}, nil
}

// Write writes key.pem (PKCS#8), cert.pem and cert.der into a folder and returns the first two paths.
func (k *Key) Write(dir string) (key, cert string, err error) {
	private, err := x509.MarshalPKCS8PrivateKey(k.Private)
	if err != nil {
		return "", "", fmt.Errorf("write the key of %s: %w", k.Certificate.Subject, err)
	}
	key, cert = filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	err = errors.Join(
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate.Raw}), 0o644),
		os.WriteFile(filepath.Join(dir, "cert.der"), k.Certificate.Raw, 0o644))
	if err != nil {
		return "", "", fmt.Errorf("write the key of %s: %w", k.Certificate.Subject, err)
	}
	return key, cert, nil
}

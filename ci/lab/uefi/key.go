package uefi

import (
	"crypto/sha1" //nolint:gosec // the usual key identifier, no security depends on it
	"crypto/x509"
	"crypto/x509/pkix"

	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// NewKey makes a key with a self-signed certificate that has this common name, as `openssl req -x509` makes
// it for code signing: RSA of 2048 bits, SHA-256. It takes some tenths of a second.
func NewKey(name string) *testcert.Pair {
	key := testcert.RSA()
	id := sha1.Sum(x509.MarshalPKCS1PublicKey(&key.PublicKey)) //nolint:gosec // RFC 5280, 4.2.1.2; the kernel shows it in /proc/keys
	return testcert.Of(key, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true, SubjectKeyId: id[:], SignatureAlgorithm: x509.SHA256WithRSA,
	}, nil)
}

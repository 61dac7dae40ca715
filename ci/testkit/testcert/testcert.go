// Package testcert makes private keys and X.509 certificates for tests. It needs no test, so that a
// test can make its keys once, and panics if a template is wrong.
package testcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// Pair is a private key and its certificate.
type Pair struct {
	Key         crypto.Signer
	Certificate *x509.Certificate
}

// Key makes an ECDSA key, which takes little time.
func Key() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// RSA makes an RSA key of 2048 bits, which takes some tenths of a second.
func RSA() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) }

// New makes a certificate for a new ECDSA key; see Of.
func New(template x509.Certificate, issuer *Pair) *Pair { return Of(Key(), template, issuer) }

// Of makes a certificate for a key; without an issuer the key signs its own. If the template gives
// no dates, it is valid from a day ago, since the clock of a guest may be behind, for ten years.
func Of(key crypto.Signer, template x509.Certificate, issuer *Pair) *Pair {
	if template.SerialNumber == nil {
		template.SerialNumber = must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)))
	}
	if template.NotBefore.IsZero() && template.NotAfter.IsZero() {
		template.NotBefore = time.Now().AddDate(0, 0, -1)
		template.NotAfter = template.NotBefore.AddDate(10, 0, 0)
	}
	if issuer == nil {
		issuer = &Pair{key, &template}
	}
	der := must(
		x509.CreateCertificate(
			rand.Reader,
			&template,
			issuer.Certificate,
			key.Public(),
			issuer.Key,
		),
	)
	return &Pair{key, must(x509.ParseCertificate(der))}
}

// Authority makes a certificate that signs others.
func Authority(name string) *Pair {
	return New(x509.Certificate{
		Subject: pkix.Name{
			CommonName: name,
		}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
}

// Server makes a certificate of a server that clients reach by these host names and addresses.
func (p *Pair) Server(hosts ...string) *Pair {
	template := x509.Certificate{
		Subject: pkix.Name{
			CommonName: hosts[0],
		}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return New(template, p)
}

// Client makes a certificate of a user who is a member of these groups.
func (p *Pair) Client(user string, groups ...string) *Pair {
	return New(x509.Certificate{
		Subject:  pkix.Name{CommonName: user, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, p)
}

// Pool returns a pool that has only this certificate.
func (p *Pair) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Certificate)
	return pool
}

// CertPEM returns the certificate in PEM.
func (p *Pair) CertPEM() string { return PEM("CERTIFICATE", p.Certificate.Raw) }

// KeyPEM returns the key as PKCS#8, in PEM.
func (p *Pair) KeyPEM() string { return PEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(p.Key))) }

// PEM returns a block of PEM.
func PEM(label string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

// Write writes both as PEM, the key with mode 0600.
func (p *Pair) Write(t require.T, cert, key string) {
	t.Helper()
	testfile.Write(t, cert, p.CertPEM())
	testfile.WriteMode(t, key, p.KeyPEM(), 0o600)
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err) //nolint:forbidigo // see the package's comment
	}
	return v
}

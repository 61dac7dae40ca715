package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are valid from a day ago, since the clock of a guest restored from a snapshot may be behind,
// for ten years, since snapshots are kept.
const (
	backdated = 24 * time.Hour
	validFor  = 10 * 365 * 24 * time.Hour
)

// PKI is a certificate authority in a folder, and the certificates that it has signed: PEM files, keys with
// mode 0600. All keys are ECDSA, which costs a slow guest little.
//
//	ca.crt ca.key                the authority, for servers and clients alike
//	apiserver.crt apiserver.key  the API server's, for the names given to NewPKI
//	sa.pub sa.key                signs the tokens of service accounts
type PKI struct {
	Dir string

	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

// NewPKI makes the authority and the API server's files in dir, which it creates. names are the host names
// and addresses by which clients reach the API server.
func NewPKI(dir string, names ...string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the certificates: %w", err)
	}
	p := &PKI{Dir: dir}
	key, err := p.newKey("ca")
	if err != nil {
		return nil, err
	}
	p.key, p.ca = key, &x509.Certificate{
		Subject: pkix.Name{CommonName: "cluster-test-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if p.ca, err = p.sign("ca", p.ca, &key.PublicKey); err != nil {
		return nil, err
	}
	if err := p.Server("apiserver", names...); err != nil {
		return nil, err
	}
	tokens, err := p.newKey("sa")
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&tokens.PublicKey)
	if err != nil {
		return nil, err
	}
	return p, p.write("sa.pub", "PUBLIC KEY", public, 0o644)
}

// Path returns the path of one of the authority's files, such as "ca.crt".
func (p *PKI) Path(name string) string { return filepath.Join(p.Dir, name) }

// Server makes NAME.crt and NAME.key for a server with these host names and addresses.
func (p *PKI) Server(name string, hosts ...string) error {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	return p.issue(name, cert)
}

// Client makes NAME.crt and NAME.key for a user of the API server who is a member of these groups.
func (p *PKI) Client(name, user string, groups ...string) error {
	return p.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (p *PKI) issue(name string, cert *x509.Certificate) error {
	key, err := p.newKey(name)
	if err != nil {
		return err
	}
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	_, err = p.sign(name, cert, &key.PublicKey)
	return err
}

func (p *PKI) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, p.write(name+".key", "EC PRIVATE KEY", der, 0o600)
}

// sign writes NAME.crt and returns the certificate parsed from its DER form.
func (p *PKI) sign(name string, cert *x509.Certificate, public *ecdsa.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	cert.SerialNumber, cert.NotBefore = serial, time.Now().Add(-backdated)
	cert.NotAfter = cert.NotBefore.Add(validFor)
	der, err := x509.CreateCertificate(rand.Reader, cert, p.ca, public, p.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	if err := p.write(name+".crt", "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (p *PKI) write(name, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(p.Path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

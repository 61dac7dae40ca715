package control

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// PKI is a certificate authority in a folder, and the certificates that it has signed: PEM files, keys with
// mode 0600. Snapshots are kept, so they are valid for ten years.
//
//	ca.crt ca.key                the authority, for servers and clients alike
//	apiserver.crt apiserver.key  the API server's, for the names given to NewPKI
//	sa.pub sa.key                signs the tokens of service accounts
type PKI struct {
	Dir string

	ca *testcert.Pair
}

// NewPKI makes the authority and the API server's files in dir, which it creates. names are the host names
// and addresses by which clients reach the API server.
func NewPKI(dir string, names ...string) (*PKI, error) {
	p := &PKI{Dir: dir, ca: testcert.Authority("cluster-test-ca")}
	tokens := testcert.New(x509.Certificate{}, nil)
	public, err := x509.MarshalPKIXPublicKey(tokens.Key.Public())
	return p, errors.Join(err, os.MkdirAll(dir, 0o700), p.write("ca", p.ca), p.write("apiserver", p.ca.Server(names...)),
		os.WriteFile(p.Path("sa.key"), []byte(tokens.KeyPEM()), 0o600), os.WriteFile(p.Path("sa.pub"), []byte(testcert.PEM("PUBLIC KEY", public)), 0o644))
}

// Path returns the path of one of the authority's files, such as "ca.crt".
func (p *PKI) Path(name string) string { return filepath.Join(p.Dir, name) }

// Client makes NAME.crt and NAME.key for a user of the API server who is a member of these groups.
func (p *PKI) Client(name, user string, groups ...string) error {
	return p.write(name, p.ca.Client(user, groups...))
}

func (p *PKI) write(name string, pair *testcert.Pair) error {
	return errors.Join(os.WriteFile(p.Path(name+".crt"), []byte(pair.CertPEM()), 0o644), os.WriteFile(p.Path(name+".key"), []byte(pair.KeyPEM()), 0o600))
}

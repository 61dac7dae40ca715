package control

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// PKI is a certificate authority, and a folder with its certificate and what the API server needs:
// PEM files, keys with mode 0600. The disk of a guest is kept, so certificates are valid for ten
// years.
//
//	ca.crt                       the authority, for servers and clients alike
//	apiserver.crt apiserver.key  the API server's, for the names given to NewPKI
//	kubelet-client.crt .key      the API server's, for the kubelet
//	sa.pub sa.key                signs the tokens of service accounts
type PKI struct {
	Dir string

	ca *testcert.Pair
}

// NewPKI makes the authority and the API server's files in dir, which it creates. names are the
// host names and addresses by which clients reach the API server.
func NewPKI(dir string, names ...string) (*PKI, error) {
	p := &PKI{Dir: dir, ca: testcert.Authority("cluster-test-ca")}
	server := p.ca.Server(names...)
	client := p.ca.Client("admin", "system:masters")
	tokens := testcert.New(x509.Certificate{}, nil)
	public, err := x509.MarshalPKIXPublicKey(tokens.Key.Public())
	err = errors.Join(err, os.MkdirAll(dir, 0o700))
	for name, text := range map[string]string{
		"ca.crt": p.ca.CertPEM(), "apiserver.crt": server.CertPEM(), "apiserver.key": server.KeyPEM(),
		"kubelet-client.crt": client.CertPEM(), "kubelet-client.key": client.KeyPEM(),
		"sa.key": tokens.KeyPEM(), "sa.pub": testcert.PEM("PUBLIC KEY", public),
	} {
		err = errors.Join(err, os.WriteFile(p.Path(name), []byte(text), 0o600))
	}
	return p, err
}

// Path returns the path of one of the authority's files, such as "ca.crt".
func (p *PKI) Path(name string) string { return filepath.Join(p.Dir, name) }

// Kubeconfig writes a self-contained kubeconfig to path (mode 0600): the API server at the URL, the
// authority, and a new client certificate for the user in these groups.
func (p *PKI) Kubeconfig(path, server, user string, groups ...string) error {
	pair := p.ca.Client(user, groups...)
	return p.write(
		path,
		server,
		&api.AuthInfo{
			ClientCertificateData: []byte(pair.CertPEM()),
			ClientKeyData:         []byte(pair.KeyPEM()),
		},
	)
}

func (p *PKI) write(path, server string, user *api.AuthInfo) error {
	const name = "test"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{
		Server:                   server,
		CertificateAuthorityData: []byte(p.ca.CertPEM()),
	}
	config.AuthInfos[name] = user
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

package buildkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/runnertest"
)

// authority makes certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(dir, name)}
	a.cert, a.key = certificate(t, a.file, "", &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

func (a *authority) issue(t *testing.T, dir, name string, usage x509.ExtKeyUsage) {
	t.Helper()
	certificate(t, filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"), &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"builder.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a)
}

func certificate(t *testing.T, certFile, keyFile string, c *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der := require.Value(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer))(t)
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if keyFile != "" {
		b := require.Value(x509.MarshalPKCS8PrivateKey(key))(t)
		write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}))
	}
	parsed := require.Value(x509.ParseCertificate(der))(t)
	return parsed, key
}

func write(t *testing.T, file string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, b, 0o600))
}

// TestRealTLS: a daemon that verifies client certificates, and the message for every mistake.
func TestRealTLS(t *testing.T) {
	realTier(t)
	noLeaks(t)
	dir := t.TempDir()
	ours, theirs := newAuthority(t, dir, "ca.crt"), newAuthority(t, dir, "other.crt")
	ours.issue(t, dir, "daemon", x509.ExtKeyUsageServerAuth)
	ours.issue(t, dir, "tls", x509.ExtKeyUsageClientAuth)
	theirs.issue(t, dir, "stranger", x509.ExtKeyUsageClientAuth)
	l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	host := l.Addr().String()
	l.Close()
	in := func(name string) string { return filepath.Join(dir, name) }
	startDaemon(t, "", "--addr", "tcp://"+host, "--tlscert", in("daemon.crt"), "--tlskey", in("daemon.key"), "--tlscacert", in("ca.crt"))
	for _, c := range []struct {
		name string
		tls  TLS
		says string // part of the error; "": the connection works
	}{
		{"files", TLS{CA: in("ca.crt"), Cert: in("tls.crt"), Key: in("tls.key")}, ""},
		{"folder", TLS{Dir: dir}, ""},
		{"name", TLS{Dir: dir, ServerName: "builder.example"}, ""},
		{"wrong CA", TLS{CA: in("other.crt"), Cert: in("tls.crt"), Key: in("tls.key")}, "give the CA that signed"},
		{"the system's CAs", TLS{Cert: in("tls.crt"), Key: in("tls.key")}, "give the CA that signed"},
		{"wrong name", TLS{Dir: dir, ServerName: "elsewhere.example"}, "name the daemon as its certificate does"},
		{"no client certificate", TLS{CA: in("ca.crt")}, "client certificate"},
		{"stranger", TLS{CA: in("ca.crt"), Cert: in("stranger.crt"), Key: in("stranger.key")}, "client certificate"},
		{"no TLS", TLS{}, "wants TLS"},
	} {
		p, err := New(t.Context(), Options{Addresses: []string{"tcp://" + host}, TLS: c.tls})
		if c.says != "" {
			if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), host) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		lines, err := run(t, p, step(t, runnertest.ProgramLayer(t), "exit", "0", "hello", c.name))
		assert.NoError(t, err)
		assert.Samef(t, []string{"hello", c.name}, lines, "lines (-want +got)")
		assert.NoError(t, p.Close())
	}
}

package control

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestPKI opens a connection whose two ends check each other with the files.
func TestPKI(t *testing.T) {
	t.Parallel()
	p := require.Value(NewPKI(t.TempDir(), "10.0.2.15", "api.example.com"))(t)
	require.NoError(t, p.Client("node", "system:node:one", "system:nodes"))
	authority := require.Value(os.ReadFile(p.Path("ca.crt")))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	for _, tc := range []struct {
		name, host string
		usage      x509.ExtKeyUsage
		good       bool
	}{
		{"apiserver", "10.0.2.15", x509.ExtKeyUsageServerAuth, true},
		{"apiserver", "api.example.com", x509.ExtKeyUsageServerAuth, true},
		{"apiserver", "example.com", x509.ExtKeyUsageServerAuth, false},
		{"apiserver", "", x509.ExtKeyUsageClientAuth, false},
		{"node", "", x509.ExtKeyUsageClientAuth, true},
		{"node", "", x509.ExtKeyUsageServerAuth, false},
	} {
		pair, err := tls.LoadX509KeyPair(p.Path(tc.name+".crt"), p.Path(tc.name+".key"))
		require.NoError(t, err)
		for _, at := range []time.Duration{-20 * time.Hour, 0, 9 * 365 * 24 * time.Hour} {
			_, err = pair.Leaf.Verify(x509.VerifyOptions{
				Roots: pool, DNSName: tc.host, KeyUsages: []x509.ExtKeyUsage{tc.usage}, CurrentTime: time.Now().Add(at),
			})
			assert.Equalf(t, tc.good, err == nil, "%s for %q, usage %v, at %s: got %v; good should be", tc.name, tc.host, tc.usage, at, err)
		}
		if tc.name == "node" && (pair.Leaf.Subject.CommonName != "system:node:one" || pair.Leaf.Subject.Organization[0] != "system:nodes") {
			t.Errorf("the node's subject is %s", pair.Leaf.Subject)
		}
	}
	tokens := require.Value(os.ReadFile(p.Path("sa.pub")))(t)
	if block, _ := pem.Decode(tokens); block == nil || block.Type != "PUBLIC KEY" {
		t.Errorf("sa.pub is %q", tokens)
	}
	if st, err := os.Stat(p.Path("sa.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("sa.key: %v, %v; want mode 0600", st.Mode(), err)
	}
}

package buildkit

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/runner"
)

// TestRealTLS: a daemon that verifies client certificates, and the message for every mistake.
func TestRealTLS(t *testing.T) {
	realTier(t)
	noLeaks(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ours, theirs := testcert.Authority("ours"), testcert.Authority("theirs")
	testfile.Tree(t, dir, map[string]string{"ca.crt": ours.CertPEM(), "other.crt": theirs.CertPEM()})
	ours.Server("builder.example", "127.0.0.1").Write(t, in("daemon.crt"), in("daemon.key"))
	ours.Client("tls").Write(t, in("tls.crt"), in("tls.key"))
	theirs.Client("stranger").Write(t, in("stranger.crt"), in("stranger.key"))
	host := tool.UnusedAddress(t)
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
		p, err := New(t.Context(), Options{Address: "tcp://" + host, TLS: c.tls})
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
		lines, err := run(t, p, runnertest.Step(t, nil, "echo hello; echo "+c.name))
		assert.NoError(t, err)
		assert.Samef(t, []string{"hello", c.name}, lines, "lines (-want +got)")
		assert.NoError(t, p.Close())
	}
}

package node

import (
	"bytes"
	"crypto/x509"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// TestSignedStart checks that modules are signed with a mounted key once, before they are loaded and kept.
func TestSignedStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, cached := range []bool{false, true} {
			w.cache[v535] = cached
			e := w.run(life{version: v535}, func(n *Node) { n.Supplier.(*instance).signer = &x509.Certificate{} })
			ops := strings.Join(e.ops, " ")
			if e.err != nil || !e.served || strings.Contains(ops, "compiled") == cached || !strings.Contains(ops, "sign") || !strings.Contains(ops, "keep") ||
				strings.Index(ops, "sign") > strings.Index(ops, "insert nvidia") || strings.Index(ops, "keep") < strings.Index(ops, "insert nvidia") {
				t.Errorf("cached %v: %v, %s", cached, e.err, ops)
			}
		}
	})
}

// TestLeaveCertificate checks that the certificate is left for mokutil if and only if a start is blocked by
// its key.
func TestLeaveCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	cert := server.Certificate()
	mounted, none := &instance{signer: cert}, &instance{}
	signed := &kbuild.Set{Certificate: cert.Raw}
	for _, c := range []struct {
		name  string
		check preflight.Check
		left  bool
	}{
		{"blocked by the key", preflight.Check{Status: preflight.Blocked, Signatures: &preflight.Signatures{Enrol: "mokutil"}}, true},
		{"blocked by something else", preflight.Check{Status: preflight.Blocked, Signatures: &preflight.Signatures{}}, false},
		{"another check", preflight.Check{Status: preflight.Blocked}, false},
		{"no block", preflight.Check{Status: preflight.Warning, Signatures: &preflight.Signatures{Enrol: "mokutil"}}, false},
	} {
		for who, found := range map[string]*kbuild.Set{"mounted key": nil, "set": signed} {
			var said logtest.Log
			n := &Node{cfg: config.Config{StateDir: filepath.Join(t.TempDir(), "state")}, log: said.Logger(), Machine: Machine{Supplier: none}, found: found, status: status.NewStore(status.Snapshot{}, nil, nil)}
			if found == nil {
				n.Supplier = mounted
			}
			n.leaveCertificate([]preflight.Check{c.check})
			data, err := os.ReadFile(filepath.Join(n.cfg.StateDir, preflight.CertificateFile))
			if c.left != (err == nil) || c.left && !bytes.Equal(data, cert.Raw) {
				t.Errorf("%s, %s: %v; %s", c.name, who, err, &said)
			}
			if c.left && !strings.Contains(said.String(), "is not a folder of the host") {
				t.Errorf("%s: %s", who, &said)
			}
		}
	}
	var said logtest.Log
	n := &Node{cfg: config.Config{StateDir: "/proc/nowhere"}, log: said.Logger(), Machine: Machine{Supplier: mounted}, status: status.NewStore(status.Snapshot{}, nil, nil)}
	n.leaveCertificate([]preflight.Check{{Status: preflight.Blocked, Signatures: &preflight.Signatures{Enrol: "mokutil"}}})
	assert.Contains(t, said.String(), "could not be left for mokutil")
}

package node

import (
	"bytes"
	"crypto/x509"
	"errors"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// TestHostModules: a driver that the node's system loaded is served, and a stop leaves it. Another driver, or half of
// one, is refused. TestEveryOperation has its failures.
func TestHostModules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, filepath.Join(memory(t), "world"))
		w.bring(t, v535)
		before := maps.Clone(w.modules)
		e := w.run(life{version: v535, param: "NVreg_A=1"}, func(n *Node) {
			n.served = func() {
				st := n.Snapshot()
				assert.Equal(t, status.FromHost, st.Up.Source)
				assert.Equal(t, 3, len(st.Up.Modules))
				assert.Contains(t, strings.Join(st.Warnings, "\n"), "nvidia: the system of this node loaded it with other parameters: ")
			}
		})
		if got := w.outcome(); e.err != nil || !e.served || got != absent {
			t.Errorf("served %v, %v; it left %s", e.served, e.err, got)
		}
		assert.Same(t, before, w.modules)
		w.users = []kmod.Holder{{PID: 98, Command: "nvidia-persiste", Files: []string{"/dev/nvidiactl"}}}
		e = w.run(life{version: v535})
		assert.Equalf(t, absent, w.outcome(), "a program of the host has the driver open, %v", e.err)
		w.users[0].Container = "c"
		e = w.run(life{version: v535})
		assert.Equalf(t, whole, w.outcome(), "a container has the driver open, %v", e.err)
		w.users = nil
		e = w.run(life{version: v470})
		assert.ErrorContains(t, e.err, "loaded nvidia of driver "+v535+", this image has driver "+v470+". Use the image of driver "+v535)
		delete(w.modules, "nvidia_uvm")
		e = w.run(life{version: v535})
		assert.ErrorContains(t, e.err, "nvidia-uvm is not loaded", "modprobe nvidia-uvm")
		if blocked, ok := errors.AsType[*preflight.BlockedError](e.err); !ok || !blocked.Has("modules") {
			t.Errorf("half a driver: %v", e.err)
		}
		assert.Equal(t, "", strings.Join(w.wrong, "; "))

		w.brings = "" // the flag is taken away: then the driver is the container's, as any that another program loaded
		w.cache[v535] = true
		e = w.run(life{version: v535})
		if _, left := w.modules["nvidia"]; left || !e.served || e.err != nil {
			t.Errorf("served %v, %v; nvidia is left: %v", e.served, e.err, left)
		}
	})
}

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

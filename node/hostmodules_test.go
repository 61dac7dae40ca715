package node

import (
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
			n.Served = func() {
				st := n.Status.Get()
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

// The system of the node unloads its driver: only there it can be loaded again, and no GPU can be bound to it before.
func TestHostUnloads(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.bring(t, v535)
		w.tell(t, `
			GPU comes
			run 535 2m
				11s uvm unloaded
				18s see State:degraded | nvidia_uvm was unloaded by the node's own system, which brings it (--modules=host): load it there (modprobe nvidia_uvm) | !delete this pod
				20s unload nvidia
				21s GPU unbound
				28s see lent to no driver | !/sys/bus/pci/drivers/nvidia/bind | !delete this pod
			end served`)
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
	leave := func(dir string, set *kbuild.Set, c preflight.Check) (left []byte, said string) {
		var log logtest.Log
		n := &Node{
			cfg:     config.Config{StateDir: dir},
			Machine: Machine{Supplier: &instance{}},
			Options: Options{Log: log.Logger(), Status: status.NewStore(status.Snapshot{}, nil, nil)},
		}
		if set == nil { // a key is mounted
			n.Supplier = &instance{signer: cert}
		}
		fitness{Node: n, Facts: Facts{ModuleSet: ModuleSet{Set: set}}}.leaveCertificate([]preflight.Check{c})
		left, _ = os.ReadFile(filepath.Join(dir, preflight.CertificateFile))
		return left, log.String()
	}
	blocked := preflight.Check{Status: preflight.Blocked, Signatures: &preflight.Signatures{Enrol: "mokutil"}}
	for _, set := range []*kbuild.Set{nil, {Certificate: cert.Raw}} {
		left, said := leave(filepath.Join(t.TempDir(), "state"), set, blocked)
		assert.Equal(t, string(cert.Raw), string(left))
		assert.Contains(t, said, "is not a folder of the host")
	}
	for name, c := range map[string]preflight.Check{
		"blocked by something else": {Status: preflight.Blocked, Signatures: &preflight.Signatures{}},
		"another check":             {Status: preflight.Blocked},
		"no block":                  {Status: preflight.Warning, Signatures: &preflight.Signatures{Enrol: "mokutil"}},
	} {
		left, _ := leave(t.TempDir(), nil, c)
		assert.Equalf(t, "", string(left), "%s", name)
	}
	_, said := leave("/proc/nowhere", nil, blocked)
	assert.Contains(t, said, "could not be left for mokutil")
}

package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// TestCompileTroubles is scenario 11: the disk is full when the modules are kept; a signal interrupts a
// compile.
func TestCompileTroubles(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.run(life{version: v535})
		delete(w.cache, v535)
		keep := slices.Index(first.ops, "keep") + 1
		e := w.run(life{version: v535, events: []event{{keep, "fail"}}})
		w.must(t, e, true, absent)
		delete(w.cache, v535)
		e = w.run(life{version: v470, asks: 500 * time.Millisecond})
		if e.err != nil || w.outcome() != absent || e.took > 2*time.Second || e.served {
			t.Errorf("stopped in the compile: error %v, %s, after %s", e.err, w.outcome(), e.took)
		}
	})
}

// TestParameters is scenario 12.
func TestParameters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cache[v535] = true
		e := w.run(life{version: v535, param: "NVreg_Unknown=1"})
		if !errors.Is(e.err, config.ErrConfig) || slices.Contains(e.ops, "insert nvidia") || w.outcome() != absent {
			t.Errorf("error %v, %v", e.err, e.ops)
		}
		w.leave(v535)
		e = w.run(life{version: v535, param: "NVreg_A=1"})
		if e.err != nil || !e.served || !slices.Contains(e.ops, "insert nvidia") || w.params["nvidia"][0] != "NVreg_A=1" {
			t.Errorf("loaded with other parameters: served %v, error %v, %v", e.served, e.err, e.ops)
		}
	})
}

// TestDaemons is scenario 13.
func TestDaemons(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.noDaemon = true
		var seen status.Snapshot
		e := w.run(life{version: v535, asks: 2 * time.Minute}, func(*Node) {
			w.at(20*time.Second, func() { seen, w.noDaemon = *w.saved, false })
			w.at(80*time.Second, func() { w.meddle("daemon dies") })
		})
		if seen.State != status.Degraded || !strings.Contains(seen.Reason, "nvidia-persistenced ended at once") {
			t.Errorf("a daemon that does not start: %+v", seen)
		}
		w.must(t, e, true, absent)
	})
}

// TestMeddlers checks that changes which others make to a driver that serves are reported and never repaired,
// and that a stop nevertheless leaves nothing behind.
func TestMeddlers(t *testing.T) {
	for what, want := range map[string]string{
		"mounted over": "mounted over the driver root", "unmounted": "was unmounted by another program", "uvm unloaded": "nvidia_uvm was unloaded by another program",
		"modeset unloaded": "nvidia_modeset was unloaded by another program",
		"daemon dies":      "it ended with code 1", "lock file removed": "", "lock file taken": "cannot be made anew",
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var seen status.Snapshot
				e := w.run(life{version: v535, asks: time.Minute}, func(*Node) {
					w.at(11*time.Second, func() { w.meddle(what) })
					w.at(18*time.Second, func() { seen = *w.saved })
				})
				text := seen.Reason + strings.Join(seen.Warnings, " ")
				lockFile := strings.HasPrefix(what, "lock")
				if !strings.Contains(text, want) || seen.Ready != lockFile || e.err != nil {
					t.Errorf("ready %v, %q, error %v", seen.Ready, text, e.err)
				}
				assert.Equal(t, absent, w.outcome())
			})
		})
	}
}

// TestUnload checks that `unload` takes down what an instance left.
func TestUnload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log logtest.Log
		for _, prepare := range []func(){func() {}, func() { w.leave(v535) }, func() { w.leave(v470) }, func() { w.layers = []string{v470} },
			func() {
				w.nodes = []devices.Node{{Path: "/dev/nvidia0", Made: true}}
				w.saved.Up = &status.Driver{Nodes: w.nodes}
			}} {
			prepare()
			i, n := w.begin(life{version: v535})
			n.log = log.Logger()
			if err := n.Unload(t.Context(), t.Context()); err != nil || w.outcome() != absent {
				t.Errorf("error %v, %s", err, w.outcome())
			}
			i.over()
			w.saved = &status.Snapshot{Schema: status.Schema, BootID: "boot", State: status.Detached, Reason: "x"}
		}
		assert.Equal(t, 3, strings.Count(log.String(), "there was no driver to unload"))
		w.saved = nil
		w.leave(v535)
		w.meddle("holder comes")
		i, n := w.begin(life{version: v535, onBusy: config.BusyFail})
		if err := n.Unload(t.Context(), t.Context()); !errors.Is(err, ErrLeft) || w.outcome() != whole {
			t.Errorf("in use: error %v, %s", err, w.outcome())
		}
		i.over()
	})
}

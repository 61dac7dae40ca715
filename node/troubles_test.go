package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

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

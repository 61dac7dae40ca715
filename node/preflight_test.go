package node

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// TestPreflightReason checks that the termination message of a container that preflight ends is the check
// that stopped it, and what it found.
func TestPreflightReason(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.preflightBad = true
		file := w.dir + "/termination"
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		e := w.run(life{version: v535, asks: time.Hour}, func(n *Node) { n.cfg.Termination = file })
		text, err := os.ReadFile(file)
		blocked, ok := errors.AsType[*preflight.BlockedError](e.err)
		if !ok || !blocked.Has(preflight.Headers) || !strings.Contains(string(text), "no headers") {
			t.Errorf("%v, last words %q, %v", e.err, text, err)
		}
		if e.status.State != status.Failed || !strings.Contains(e.status.Reason, "no headers") {
			t.Errorf("%+v", e.status)
		}
	})
}

// TestPreflightWaits checks that an instance that waits for a fit node says why, touches nothing, and goes on
// by itself: after a minute, and as soon as another driver is gone.
func TestPreflightWaits(t *testing.T) {
	for name, c := range map[string]struct {
		changes func(w *world)
		until   time.Duration // the change comes at 152 s
	}{
		"a finding that nothing shows": {func(*world) {}, 181 * time.Second},
		"nouveau is unloaded":          {func(w *world) { delete(w.modules, "nouveau") }, 157 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.preflightBad, w.cache[v535] = true, true
				w.modules["nouveau"] = kmod.Module{Name: "nouveau", State: "live"}
				var seen, before, after status.Snapshot
				var log logtest.Log
				e := w.run(life{version: v535, asks: 5 * time.Minute, waits: true}, func(n *Node) {
					n.log = log.Logger()
					w.at(100*time.Second, func() { seen = *w.saved })
					w.at(152*time.Second, func() { w.preflightBad = false; c.changes(w) })
					w.at(c.until-6*time.Second, func() { before = *w.saved })
					w.at(c.until+time.Second, func() { after = *w.saved; delete(w.modules, "nouveau") })
				})
				if seen.State != status.Waiting || seen.WaitsFor != status.ForPreflight || seen.Phase != "preflight" || seen.Ready || !strings.Contains(seen.Reason, "no headers") ||
					seen.LastFailure == nil || seen.Counters.CacheHits != 1 || len(seen.Warnings) > 1 {
					t.Errorf("waiting: %+v", seen)
				}
				if before.State != status.Waiting || after.State != status.Serving || after.Reason != "" || after.Counters.CacheHits != 1 {
					t.Errorf("before %s, after %+v", before.State, after)
				}
				w.must(t, e, true, absent)
				for text, times := range map[string]int{"waiting for a fit node": 1, "nothing prevents the driver any more": 1, "driver chosen": 1, "another compiler": 1} {
					assert.Equalf(t, times, strings.Count(log.String(), text), "%s in\n%s", text, log.String())
				}
			})
		})
	}
}

// TestPreflightWaitStops checks that a signal ends the wait at once, that nothing was touched, and that a
// driver from before stays.
func TestPreflightWaitStops(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.preflightBad = true
		e := w.run(life{version: v535, asks: 90 * time.Second, waits: true})
		if e.err != nil || e.served || w.outcome() != absent || w.saved != nil || e.took > 91*time.Second || slices.Contains(e.ops, "stage") {
			t.Errorf("error %v, %s after %s, status %+v", e.err, w.outcome(), e.took, w.saved)
		}
		w.preflightBad = false
		w.leave(v470)
		w.preflightBad = true
		e = w.run(life{version: v535, asks: 90 * time.Second, waits: true})
		if e.err != nil || w.outcome() != whole || e.status.State != status.Detached || e.status.Up.Version != v470 {
			t.Errorf("a driver from before: error %v, %s, status %+v", e.err, w.outcome(), e.status)
		}
	})
}

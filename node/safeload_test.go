package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// fakeSafeLoad enforces the rules of the handshake: the permission is given after it was asked for, never
// before, and a withdrawn request is removed.
type fakeSafeLoad struct {
	w        *world
	err      error // the error of Ask and Withdraw
	asked    bool
	given    bool
	asks     int
	withdrew int
}

func (f *fakeSafeLoad) String() string { return "safe load (test)" }

func (f *fakeSafeLoad) Ask(context.Context) (bool, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.asks++
	if f.w.modules["nvidia"].Version == "" {
		f.w.wrong = append(f.w.wrong, "safe load is asked for when no driver has to go")
	}
	if f.err != nil {
		return false, f.err
	}
	if f.asked && f.given {
		f.asked = false
		return true, nil
	}
	f.asked = true
	return false, nil
}

func (f *fakeSafeLoad) Withdraw(context.Context) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.asked = false
	f.withdrew++
	return f.err
}

// TestSafeLoad checks that the older driver stays until the node was freed, that holders are named meanwhile,
// and that the request never outlives the instance.
func TestSafeLoad(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		given    time.Duration // when the permission is given; 0: never
		asks     time.Duration // when the instance is asked to stop
		used     bool
		served   bool
		withdrew int
		seen     string // part of the status after 10 s
		warning  string
	}{
		"given": {given: 20 * time.Second, asks: time.Minute, served: true, seen: "470.256.02 must go before 535.261.03 can be loaded: waiting for safe load (test)"},
		"given, and still used": {given: 5 * time.Second, asks: time.Minute, used: true, seen: "470.256.02 must go before 535.261.03 can be loaded: Could not unload",
			withdrew: 0},
		"stopped before":     {asks: 30 * time.Second, used: true, withdrew: 1, seen: "waiting for safe load (test); Could not unload"},
		"not allowed":        {err: fmt.Errorf("%w", fs.ErrPermission), asks: time.Minute, served: true, warning: "permission denied; going on without it"},
		"no cluster":         {err: fmt.Errorf("%w", fs.ErrNotExist), asks: time.Minute, served: true, warning: "going on without it"},
		"nobody answers":     {err: errors.New("no route"), asks: 3 * time.Minute, served: true, withdrew: 1, warning: "no route; going on without it", seen: "waiting for safe load"},
		"nobody, and a stop": {err: errors.New("no route"), asks: 30 * time.Second, withdrew: 1, seen: "waiting for safe load"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.leave(v470)
				if test.used {
					w.meddle("holder comes")
				}
				f := &fakeSafeLoad{w: w, err: test.err}
				var seen status.Snapshot
				var warnings []string
				e := w.run(life{version: v535, asks: test.asks}, func(n *Node) {
					n.safeLoad = f
					w.at(10*time.Second, func() { seen = *w.saved })
					w.at(test.asks-time.Second, func() { warnings = w.saved.Warnings })
					if test.given > 0 {
						w.at(test.given, func() { f.given = true })
					}
				})
				if e.err != nil || e.served != test.served || f.withdrew != test.withdrew || f.asked {
					t.Errorf("error %v, served %v, withdrawn %d times, still asked %v", e.err, e.served, f.withdrew, f.asked)
				}
				if !strings.Contains(seen.Reason, test.seen) || test.used != (len(seen.Holders) > 0) || test.used && seen.Counters.BlockedUnloads != 1 {
					t.Errorf("seen %+v", seen)
				}
				if got := strings.Join(warnings, "\n"); !strings.Contains(got, test.warning) || test.warning == "" && strings.Contains(got, "safe load") {
					t.Errorf("warnings %q", got)
				}
			})
		})
	}
	t.Run("not needed", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			f := &fakeSafeLoad{w: w}
			w.run(life{version: v535}, func(n *Node) { n.safeLoad = f })
			w.leave(v535)
			e := w.run(life{version: v535}, func(n *Node) { n.safeLoad = f })
			if f.asks != 0 || !e.served {
				t.Errorf("asked %d times, served %v", f.asks, e.served)
			}
		})
	})
}

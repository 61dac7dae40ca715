package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
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
					n.SafeLoad = f
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
	t.Run("given after an hour", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			f := &fakeSafeLoad{w: w}
			e := w.run(life{version: v535, asks: time.Hour + 15*time.Second}, func(n *Node) {
				n.SafeLoad = f
				w.at(time.Hour, func() { f.given = true })
			})
			assert.Equal(t, true, e.served)
			assert.Equalf(t, true, f.asks < 500, "it asked %d times: a node that is blocked is a load for the API server", f.asks)
		})
	})
	t.Run("not needed", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			f := &fakeSafeLoad{w: w}
			w.run(life{version: v535}, func(n *Node) { n.SafeLoad = f })
			w.leave(v535)
			e := w.run(life{version: v535}, func(n *Node) { n.SafeLoad = f })
			assert.Equal(t, true, e.served)
			assert.Equalf(t, 0, f.asks, "it asked")
		})
	})
}

// TestGrace checks that a stop of a driver in use ends by itself before the pod's grace period, from whatever
// source that is known, and that a stop which need not wait does not ask.
func TestGrace(t *testing.T) {
	answers := func(grace time.Duration, err error) func(context.Context) (time.Duration, error) {
		return func(context.Context) (time.Duration, error) { return grace, err }
	}
	for name, c := range map[string]struct {
		flag      time.Duration
		ask       func(context.Context) (time.Duration, error)
		pod, took time.Duration
		says      string
	}{
		"nothing is known":  {0, nil, 30 * time.Second, 20 * time.Second, ""},
		"no right to ask":   {0, answers(0, errors.New("forbidden")), 30 * time.Second, 20 * time.Second, "is not known, the usual one is assumed duration=30s: forbidden"},
		"the pod says it":   {0, answers(16*time.Second, nil), 16 * time.Second, 9 * time.Second, ""},
		"a short deletion":  {0, answers(2*time.Second, nil), 2 * time.Second, 1125 * time.Millisecond, ""},
		"the flag wins":     {20 * time.Second, answers(time.Second, nil), 30 * time.Second, 15 * time.Second, ""},
		"no time":           {0, answers(0, nil), time.Second, 0, ""},
		"no answer in time": {0, func(ctx context.Context) (time.Duration, error) { <-ctx.Done(); return 0, ctx.Err() }, 30 * time.Second, 20 * time.Second, "usual one"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var log logtest.Log
				asked := 0
				edit := func(n *Node) {
					n.cfg.Grace, n.Log = c.flag, log.Logger()
					if c.ask != nil {
						n.Grace = func(ctx context.Context) (time.Duration, error) { asked++; return c.ask(ctx) }
					}
				}
				w.run(life{version: v535}, edit)
				assert.Equalf(t, 0, asked, "an idle stop asked")
				e := w.run(life{version: v535}, edit, func(*Node) { w.at(7*time.Second, func() { w.meddle("holder comes") }) })
				took := e.took - 12*time.Second
				if e.err != nil || w.outcome() != whole || e.status.State != status.Detached || took < c.took || took >= c.pod || took > c.took+tick {
					t.Errorf("error %v, %s, %s after %s, want %s", e.err, w.outcome(), e.status.State, took, c.took)
				}
				if want := c.ask != nil && c.flag == 0; (asked == 1) != want || !strings.Contains(log.String(), c.says) {
					t.Errorf("asked %d times\n%s", asked, &log)
				}
				w.calm()
				if e = w.run(life{version: v535}, edit); !e.served || slices.Contains(e.ops, "insert nvidia") || w.outcome() != absent {
					t.Errorf("the next one: %+v", e)
				}
			})
		})
	}
}

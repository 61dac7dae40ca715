package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/status"
)

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
					n.cfg.Grace, n.log = c.flag, log.Logger()
					if c.ask != nil {
						n.askGrace = func(ctx context.Context) (time.Duration, error) { asked++; return c.ask(ctx) }
					}
				}
				w.run(life{version: v535}, edit)
				if asked > 0 {
					t.Error("an idle stop asked")
				}
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

package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

// TestUpgrade is scenario 7: the new driver fails and the old one is restored; while the old one is in use,
// the new one waits.
func TestUpgrade(t *testing.T) {
	t.Run("fails", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			w.broken[v535] = true
			e := w.run(life{version: v535})
			var rolled *RollbackError
			if !errors.As(e.err, &rolled) || rolled.Restore != nil || !errors.As(e.err, new(*kmod.RefusedError)) || !errors.Is(e.err, unix.ENODEV) {
				t.Errorf("error %v", e.err)
			}
			if w.outcome() != whole || w.modules["nvidia"].Version != v470 || e.status.State != status.Restored || e.status.Up == nil || e.status.Up.Version != v470 {
				t.Errorf("%s, status %+v", w.outcome(), e.status)
			}
		})
	})
	t.Run("neither loads", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			w.broken[v535], w.broken[v470] = true, true
			e := w.run(life{version: v535})
			if rolled, ok := errors.AsType[*RollbackError](e.err); !ok || rolled.Restore == nil || w.outcome() != absent || e.status.State != status.Failed {
				t.Errorf("error %v, %s, state %s", e.err, w.outcome(), e.status.State)
			}
		})
	})
	t.Run("busy", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			w.meddle("holder comes")
			var seen status.Snapshot
			e := w.run(life{version: v535, asks: time.Minute}, func(*Node) {
				w.at(20*time.Second, func() { seen, w.users = *w.saved, nil })
			})
			if seen.State != status.Waiting || seen.Ready || len(seen.Holders) != 1 || !strings.Contains(seen.Reason, v470) || seen.Up == nil || seen.Up.Version != v470 {
				t.Errorf("while it waits: %+v", seen)
			}
			w.must(t, e, true, absent)
			w.leave(v470)
			w.meddle("holder comes")
			e = w.run(life{version: v535})
			if e.err != nil || e.served || w.outcome() != whole || w.modules["nvidia"].Version != v470 || e.status.State != status.Detached {
				t.Errorf("stopped while waiting: error %v, served %v, %s, %+v", e.err, e.served, w.outcome(), e.status)
			}
		})
	})
}

// TestGPUThatDoesNotComeUp is scenario 8: a GPU never comes up.
func TestGPUThatDoesNotComeUp(t *testing.T) {
	for policy, ready := range map[string]bool{config.GPURequire: false, config.GPUWarn: true} {
		t.Run(policy, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.sick = true
				var seen status.Snapshot
				e := w.run(life{version: v535}, func(n *Node) {
					n.cfg.GPUInit = policy
					w.at(8*time.Second, func() { seen = *w.saved })
				})
				w.must(t, e, ready, absent)
				text := seen.Reason + strings.Join(seen.Warnings, " ")
				if len(seen.GPUs) != 1 || seen.GPUs[0].Works || !strings.Contains(text, "RmInitAdapter") || seen.Ready != ready {
					t.Errorf("status %+v", seen)
				}
			})
		})
	}
	t.Run("comes back", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.sick = true
			e := w.run(life{version: v535, asks: 2 * time.Minute}, func(*Node) {
				w.at(20*time.Second, func() { w.sick = false })
			})
			if !e.served || e.err != nil {
				t.Errorf("served %v, error %v", e.served, e.err)
			}
		})
	})
}

package node

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// TestSnapshotOfALife checks that a listener receives each state including the last one, before others can
// take the node.
func TestSnapshotOfALife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var n *Node
		var i *instance
		seen := map[status.State]bool{}
		var last status.Snapshot
		locked := false
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		e := w.run(life{version: v535}, func(node *Node) {
			n, i = node, node.Kernel.(*instance)
			n.ended = func() { last, locked = n.Snapshot(), i.holds }
			go func() {
				defer close(ended)
				for {
					select {
					case <-ctx.Done():
						return
					case <-n.Changed():
						if st := n.Snapshot(); st.Holding() {
							seen[st.State] = true
						}
						before := n.Snapshot().State
						_, err := n.AskUsage(ctx)
						if st := n.Snapshot().State; st == before && (err == nil) != (st == status.Serving) { // else it changed meanwhile
							t.Errorf("usage in state %s: %v", st, err)
						}
					}
				}
			}()
		})
		time.Sleep(time.Second)
		cancel()
		<-ended
		if e.err != nil || !seen[status.Starting] || !seen[status.Serving] || last.State != status.Absent || last.Up != nil || !locked || !i.usageEnded {
			t.Errorf("error %v, seen %v, last %+v, locked %v", e.err, seen, last, locked)
		}
		if c := last.Counters; c.Compiled != 1 || c.CacheMisses != 1 || c.CacheHits != 0 || c.BlockedUnloads != 0 {
			t.Errorf("%+v", c)
		}
		w.meddle("holder comes")
		w.leave(v535)
		w.meddle("holder comes")
		if e := w.run(life{version: v535}); e.status.Counters.BlockedUnloads != 1 || e.status.Counters.CacheHits != 1 {
			t.Errorf("%+v", e.status.Counters)
		}
	})
}

// TestLastFailure checks that the last failure outlives later starts.
func TestLastFailure(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.broken[v535] = true
		e := w.run(life{version: v535}, func(n *Node) { n.cfg.Pod, n.cfg.PodNamespace = "driver-x", "gpu" })
		f := e.status.LastFailure
		if f == nil || f.Wanted != v535 || f.Pod != "gpu/driver-x" || !strings.Contains(f.Reason, "load") {
			t.Fatalf("%+v", f)
		}
		w.broken[v535] = false
		w.run(life{version: v535}, func(*Node) {
			w.at(8*time.Second, func() {
				if got := w.saved.LastFailure; got == nil || *got != *f || w.saved.State != status.Serving {
					t.Errorf("%+v, state %s", got, w.saved.State)
				}
			})
		})
	})
}

// TestLockNeverFree checks that the termination message names a lock that never becomes free.
func TestLockNeverFree(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.locked = true
		file := w.dir + "/termination"
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		var n *Node
		e := w.run(life{version: v535, asks: time.Hour}, func(node *Node) { n = node; n.cfg.Termination = file })
		text, err := os.ReadFile(file)
		if !errors.Is(e.err, lock.ErrHeld) || !strings.Contains(string(text), lock.ErrHeld.Error()) {
			t.Errorf("%v, last words %q, %v", e.err, text, err)
		}
		if st := n.Snapshot(); st.State != status.Failed || st.Holding() {
			t.Errorf("%+v", st)
		}
	})
}

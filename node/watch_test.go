package node

import (
	"context"
	"testing"
	"time"

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

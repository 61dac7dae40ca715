package node

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// A start waits until the GPUs have registered with their NVLink fabric, and says so; nothing is ready
// meanwhile.
func TestFabricRegisters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.fabric = &probe.Fabric{State: probe.FabricInProgress}
		e := w.run(life{version: v535, asks: 10 * time.Minute}, func(n *Node) {
			w.at(30*time.Second, func() {
				st := n.Snapshot()
				if st.State != status.Starting || st.Ready || st.GPUs[0].Fabric != probe.FabricInProgress {
					t.Errorf("%+v", st)
				}
				assert.Contains(t, st.Reason, "registration with the NVLink fabric is in progress on 1 of 1 GPUs (00000000:05:00.0); waiting for it until ")
				w.fabric = &probe.Fabric{State: probe.FabricCompleted}
			})
			w.at(40*time.Second, func() {
				if st := n.Snapshot(); st.State != status.Serving || !st.Ready || st.Reason != "" {
					t.Errorf("%+v", st)
				}
			})
		})
		assert.NoError(t, e.err)
	})
}

// A registration that does not end, and one that failed, leave the node not ready with the reason; it
// recovers by itself. With --fabric=ignore they do not count.
func TestFabricFails(t *testing.T) {
	for name, c := range map[string]struct {
		fabric *probe.Fabric
		who    string
		at     time.Duration
		want   string // part of the reason; "": it serves
	}{
		"never ends":     {&probe.Fabric{State: probe.FabricNotStarted}, fabric.Auto, 6 * time.Minute, "not started on 1 of 1 GPUs (00000000:05:00.0), and did not end within 5m0s"},
		"failed":         {&probe.Fabric{State: probe.FabricCompleted, Error: "Timeout"}, fabric.External, 20 * time.Second, "failed: GPU 00000000:05:00.0: Timeout"},
		"does not count": {&probe.Fabric{State: probe.FabricInProgress}, fabric.Ignore, 20 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.fabric = c.fabric
				e := w.run(life{version: v535, asks: 20 * time.Minute}, func(n *Node) {
					n.registration.Who = c.who
					w.at(c.at, func() {
						st := n.Snapshot()
						if st.Ready != (c.want == "") || c.want != "" && st.State != status.Degraded || !strings.Contains(st.Reason, c.want) {
							t.Errorf("%+v", st)
						}
						w.fabric = nil
					})
					w.at(c.at+time.Minute, func() {
						if st := n.Snapshot(); st.State != status.Serving || !st.Ready {
							t.Errorf("it does not recover: %+v", st)
						}
					})
				})
				assert.NoError(t, e.err)
			})
		})
	}
}

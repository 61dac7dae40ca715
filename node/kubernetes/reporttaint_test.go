package kubernetes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// TestStartupTaint checks that the taints go when the driver serves, not before, and once: a taint that
// somebody sets later stays.
func TestStartupTaint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.o.Taints, b.taints.on = []string{"example.com/starting"}, true
	b.events.on, b.Reporter.condition.on = false, false
	set := func() {
		b.server.Do(func(st *apitest.State) {
			st.Node.Spec.Taints = []corev1.Taint{taint("example.com/starting", "NoSchedule"), taint("other", "NoSchedule")}
		})
	}
	left := func() (n int) {
		b.server.Do(func(st *apitest.State) { n = len(st.Node.Spec.Taints) })
		return n
	}
	set()
	degraded := serves
	degraded.State, degraded.Ready = status.Degraded, false
	for _, st := range []status.Snapshot{{}, {State: status.Waiting, WaitsFor: status.ForLock, Phase: "lock"}, {State: status.Starting, Phase: "load"}, degraded, {State: status.Detached, Up: up}} {
		b.see(t, time.Minute, st)
		assert.Equalf(t, 2, left(), "state %s", st.State)
	}
	b.server.Do(func(st *apitest.State) { st.Down = true })
	b.see(t, time.Minute, serves)
	b.server.Do(func(st *apitest.State) { st.Down = false })
	b.see(t, firstWait-1, serves)
	assert.Equalf(t, 2, left(), "it does not pause")
	b.see(t, 1, serves)
	assert.Equal(t, 1, left())
	text := b.said.String()
	assert.Contains(t, text, "the removal of startup taints")
	assert.Contains(t, text, "startup taints removed from the node node=node-1 taints=example.com/starting")
	set()
	b.see(t, time.Hour, degraded)
	b.see(t, time.Hour, serves)
	assert.Equalf(t, 2, left(), "a taint that somebody set later")
}

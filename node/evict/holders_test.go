package evict

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// holdersBench is a node on which a Deployment's and a DaemonSet's pod have the driver open,
// without a request.
func holdersBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, pod("viewer", "ReplicaSet"), pod("monitor", "DaemonSet"))
	b.d.hold = func() (out []kmod.Holder) {
		for _, name := range []string{"viewer", "monitor"} {
			if strings.Contains(b.names(), name) {
				out = append(out, kmod.Holder{PID: 7, Pod: "uid-" + name})
			}
		}
		return out
	}
	return b
}

// TestHolders: a pod without a request for GPUs that has the driver open is evicted as well. A DaemonSet's
// pod is named, and nothing is evicted for an upgrade that could not go on.
func TestHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := holdersBench(t)
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(4 * time.Minute)
		assert.Equal(t, "viewer monitor driver-abc", b.names())
		assert.Equal(t, 0, b.see().patches)
		assert.Contains(t, b.messages(), "pod team/monitor uses the driver and belongs to a DaemonSet: give the DaemonSet the node selector nvidia.com/gpu.deploy.client=true")
		b.locked(func() { b.end(b.pods[1]) }) // a person has paused it
		time.Sleep(time.Minute)
		b.pristine(false)
		assert.Equal(t, "driver-abc", b.names())
		assert.Equal(t, status.Serving, b.d.now())
	})
}

// TestHolderDaemonSetAllowed: with --evict-daemonsets the DaemonSet's pod is evicted, too; the one that the
// DaemonSet starts has not opened the driver yet when the driver goes.
func TestHolderDaemonSetAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := holdersBench(t)
		b.cfg.DaemonSets = true
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(4 * time.Minute)
		b.pristine(false)
		assert.Equal(t, "driver-abc", b.names())
		assert.Equal(t, "Started Done", b.reasons())
	})
}

// TestHolderAppears: a DaemonSet's pod that opens the driver when it was already allowed to continue. The
// attempt ends in time and names the pod; until the pod is gone nothing is tried again.
func TestHolderAppears(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, pod("monitor", "DaemonSet"))
		b.d.hold = func() (out []kmod.Holder) {
			if asks := b.see().annotations[status.SafeLoadAnnotation] != ""; !asks && strings.Contains(b.names(), "monitor") {
				out = append(out, kmod.Holder{PID: 7, Pod: "uid-monitor"})
			}
			return out
		}
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(4 * time.Minute)
		assert.Equal(t, true, b.see().cordoned)
		time.Sleep(2 * time.Minute)
		b.pristine(false)
		assert.Contains(t, b.messages(), "not free after 5m0s: pod team/monitor uses the driver and belongs to a DaemonSet")
		patches := b.see().patches
		time.Sleep(3 * time.Minute)
		assert.Equal(t, patches, b.see().patches)
		assert.Contains(t, b.reasons(), "Blocked")
		b.locked(func() { b.end(b.pods[0]) })
		time.Sleep(time.Minute)
		b.pristine(false)
		assert.Equal(t, status.Serving, b.d.now())
	})
}

// TestStaticPodHolds: nothing that this program may do ends a static pod.
func TestStaticPodHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, pod("monitor", "Node"))
		b.cfg.DaemonSets, b.cfg.Force = true, true
		b.d.hold = func() []kmod.Holder { return []kmod.Holder{{PID: 7, Pod: "uid-monitor"}} }
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(time.Minute)
		assert.Equal(t, 0, b.see().patches)
		assert.Contains(t, b.messages(), "pod team/monitor uses the driver and is a static pod, which no eviction ends: remove its manifest from the node")
		b.locked(func() { b.pods = b.pods[1:] }) // so that the driver's simulation ends
	})
}

// TestHolderDaemonSetAfterClaims: an allowed DaemonSet's pod may be the kubelet plugin without its label. It
// is evicted when no pod with a claim needs it any more.
func TestHolderDaemonSetAfterClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDRABench(t)
		b.cfg.DaemonSets = true
		b.pods = append([]*corev1.Pod{pod("monitor", "DaemonSet")}, b.pods...)
		b.d.hold = func() (out []kmod.Holder) {
			if strings.Contains(b.names(), "monitor") {
				out = append(out, kmod.Holder{PID: 7, Pod: "uid-monitor"})
			}
			return out
		}
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(3 * time.Minute)
		b.resumed()
		b.before("end train", "end monitor")
		b.before("end validator", "end monitor")
		assert.Equal(t, status.Serving, b.d.now())
	})
}

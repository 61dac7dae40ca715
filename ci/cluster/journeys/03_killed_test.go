package journeys

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// SIGKILL for the container's process 1, then for all its processes at once, while a pod uses the driver:
// each time kubelet restarts the container, once, and the new one adopts the driver. Nothing is unloaded.
func Test03Killed(t *testing.T) {
	c := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Newer)
	pod := waitServing(t, c, cluster.Newer)
	applyHolder(c, "user")

	for n, victims := range []string{
		"%d",
		"$(cat /sys/fs/cgroup$(cut -d: -f3 </proc/%d/cgroup)/cgroup.procs)", // as the kernel does when memory runs out
	} {
		before := c.Status()
		c.Node(fmt.Sprintf("kill -9 "+victims, before.PID))
		c.Wait(startWait, "another instance serves", func() error {
			st := c.Status()
			if st.Instance == before.Instance || !st.Ready {
				return fmt.Errorf("%s of %s", st.State, st.Instance)
			}
			return nil
		})
		again := waitServing(t, c, cluster.Newer)
		if got := cluster.Restarts([]corev1.Pod{again}); again.Name != pod.Name || got != n+1 {
			t.Errorf("after SIGKILL number %d pod %s (was %s) has %d restarts", n+1, again.Name, pod.Name, got)
		}
		assert.Containsf(t, c.Kubectl("logs", "-n", namespace, again.Name, "-c", driverCtr), "adopt", "the second container does not say that it adopts the driver")
	}
	if got := loads(t, c); got != 1 {
		t.Errorf("drivers were loaded %d times, want once", got)
	}
	if pods := pods(t, c, "name=user"); !cluster.Ready(pods[0]) || cluster.Restarts(pods) != 0 {
		t.Errorf("the pod that uses the driver suffered: %s", cluster.Summary(pods))
	}
}

package journeys

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// SIGKILL for the container's process 1, then for all its processes at once, while a pod uses the driver:
// each time kubelet restarts the container, once, and the new one adopts the driver. Nothing is unloaded.
func Test03Killed(t *testing.T) {
	c, _ := withGPU(t)
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
		assert.Containsf(t, c.Logs(again, driverCtr), "adopt", "the second container does not say that it adopts the driver")
	}
	if got := loads(t, c); got != 1 {
		t.Errorf("drivers were loaded %d times, want once", got)
	}
	if pods := c.Pods("--field-selector=metadata.name=user"); !cluster.Ready(pods[0]) || cluster.Restarts(pods) != 0 {
		t.Errorf("the pod that uses the driver suffered: %s", cluster.Summary(pods))
	}
}

// The node is reset, as by power loss: no module is loaded then, and files in the node's memory are lost. The
// same pod brings the driver up again.
func Test03Reboot(t *testing.T) {
	c, _ := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Newer)
	pod := waitServing(t, c, cluster.Newer)
	boot := c.Status().BootID

	c.Reboot()
	c.Wait(startWait, "an instance of this boot serves", func() error {
		if st := c.Status(); st.BootID == boot || !st.Ready {
			return fmt.Errorf("state %q, boot %q", st.State, st.BootID)
		}
		return nil
	})
	again := waitServing(t, c, cluster.Newer)
	if n := cluster.Restarts([]corev1.Pod{again}); again.Name != pod.Name || n != 1 {
		t.Errorf("pod %s (was %s) has %d restarts, want 1", again.Name, pod.Name, n)
	}
	if got := loads(t, c); got != 1 {
		t.Errorf("drivers were loaded %d times since the node's start, want once", got)
	}
}

// A node that has no GPU yet: the pod waits, not ready, and says why; once there is a GPU it serves, without
// a restart. A startup taint keeps other pods away until then.
func Test03LaterGPU(t *testing.T) {
	c := cluster.New(t)
	c.StateTable()
	const unfit, starting = "no display device of NVIDIA", "example.com/starting"
	c.Kubectl("taint", "node", cluster.NodeName, starting+":NoSchedule", "example.com/other:PreferNoSchedule")
	taints := func() string {
		return c.Kubectl("get", "node", cluster.NodeName, "-o", "jsonpath={.spec.taints[*].key}")
	}
	helmInstall(t, c, "nvidia-driver", cluster.Newer, "--set", "startupTaints={"+starting+"}")
	c.Wait(startWait, "the pod says that there is no GPU", func() error {
		if st := c.Status(); st.State != status.Waiting || st.WaitsFor != status.ForPreflight || !strings.Contains(st.Reason, unfit) {
			return fmt.Errorf("state %q, waits for %q: %s; %s", st.State, st.WaitsFor, st.Reason, cluster.Summary(c.DriverPods()))
		}
		return nil
	})
	pods := c.DriverPods()
	if len(pods) != 1 {
		t.Fatal(cluster.Summary(pods))
	}
	waitEvent(t, c, "Pod", pods[0].Name, "Unhealthy", unfit)
	if out := c.Node("grep nvidia /proc/modules /proc/mounts || true"); strings.Contains(out, "nvidia_") || strings.Contains(out, "/run/nvidia") {
		t.Errorf("something was left: %s", out)
	}
	if got := taints(); !strings.Contains(got, starting) {
		t.Errorf("the startup taint is gone before the driver serves: %s", got)
	}
	c.PlugGPU(t, fakegpu.T4)
	begin := time.Now()
	waitServing(t, c, cluster.Newer)
	c.Wait(time.Minute, "the startup taint is removed, the other one stays", func() error {
		if got := taints(); strings.Contains(got, starting) || !strings.Contains(got, "example.com/other") {
			return fmt.Errorf("taints: %s", got)
		}
		return nil
	})
	t.Logf("ready %s after the GPU was there", time.Since(begin).Round(time.Second))
	noRestarts(t, c)
}

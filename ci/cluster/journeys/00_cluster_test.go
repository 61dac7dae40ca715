package journeys

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
)

// The cluster itself: a pod runs on the node, a GPU is plugged in and advertised, and the node restarts.
func Test00Cluster(t *testing.T) {
	c := cluster.New(t)
	c.PlugGPU(t, fakegpu.T4)
	c.AdvertiseGPUs(1)
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: holder}, spec: {terminationGracePeriodSeconds: 5, containers: [
		{name: holder, image: ` + cluster.HolderImage + `, args: [/dev/null], resources: {limits: {nvidia.com/gpu: 1}}}]}}`
	c.Apply(pod)
	c.Kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=2m")
	if out := c.Kubectl("logs", "holder"); !strings.Contains(out, "holding /dev/null") {
		t.Errorf("the pod says %q", out)
	}
	c.Kubectl("delete", "pod", "holder")
	t.Run("restart", func(t *testing.T) {
		cluster.Full(t, "no journey that CI has time for restarts the node")
		c.Reboot()
		if out := c.Node("grep -lx 0x10de /sys/bus/pci/devices/*/vendor"); strings.Count(out, "\n") != 1 {
			t.Errorf("GPUs after the restart: %s", out)
		}
		c.Apply(pod)
		c.AdvertiseGPUs(1)
		c.Kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=2m")
	})
}

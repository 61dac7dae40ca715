package journeys

import (
	"testing"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// The cluster itself: a GPU is plugged into the node and advertised, and a pod that requests it runs.
func Test00Cluster(t *testing.T) {
	c := cluster.New(t)
	c.PlugGPU(t, fakegpu.T4)
	c.AdvertiseGPUs(1)
	c.Apply(`{apiVersion: v1, kind: Pod, metadata: {name: holder}, spec: {terminationGracePeriodSeconds: 5, containers: [
		{name: holder, image: ` + cluster.HolderImage + `, args: [/dev/null], resources: {limits: {nvidia.com/gpu: 1}}}]}}`)
	c.Kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=2m")
	assert.Containsf(t, c.Kubectl("logs", "holder"), "holding /dev/null", "the pod says")
	c.Kubectl("delete", "pod", "holder")
}

package journeys

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// driver-build fleet reads the nodes from the API, and helm install with the values that it writes results in
// a serving driver, without a compile: the scheduler puts the pod of fleet's pool on the node, modules are
// loaded, the root is served on the node. A pod that was created before the driver, and waits for it in an
// init container, then runs. When the driver serves, fleet writes the same values, and an upgrade with them
// replaces nothing.
func Test01Install(t *testing.T) {
	c := withGPU(t)
	applyDependant(c, "before", cluster.Newer)
	f := newFleet(t, c, cluster.Newer)
	labelNode(c)
	pools, pool := f.values(t, c)
	helm := func(command, pools string) {
		c.Helm(command, "nvidia-driver", chartDir(t), "-n", namespace, "--create-namespace", "--values", pools, "--set", "acceptLicense=true", "--set-json", fakeGPUEnv)
	}
	helm("install", pools)
	pod := waitServing(t, c, cluster.Newer)
	assert.Equalf(t, pool.Name, pod.Labels["driver-container/pool"], "the pool of the pod")
	for _, key := range []string{"kernel-version.full", "system-os_release.ID"} {
		if key = "feature.node.kubernetes.io/" + key; pool.NodeSelector[key] == "" {
			t.Errorf("the pool does not select by %s: %v", key, pool.NodeSelector)
		}
	}
	assert.Same(t, pool.NodeSelector, pod.Spec.NodeSelector)
	waitDependant(t, c, "before")
	applyDependant(c, "after", cluster.Newer)
	waitDependant(t, c, "after")
	again, _ := f.values(t, c)
	assert.Equalf(t, testfile.Read(t, pools), testfile.Read(t, again), "the values while the driver serves")
	helm("upgrade", again)
	generations := c.Kubectl("get", "daemonsets", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name} {.items[*].metadata.generation}")
	assert.Equalf(t, "nvidia-driver-"+pool.Name+" 1", generations, "the DaemonSets after the upgrade")
	noRestarts(t, c)

	modules := c.Node("cut -d' ' -f1 /proc/modules")
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset"} {
		assert.Containsf(t, modules, name+"\n", "module %s is not loaded", name)
	}
	if up := c.Status().Up; up == nil || up.Source != "image" || up.Flavour != "proprietary" {
		t.Errorf("what is up: %+v", up)
	}
	wantRootWorks(t, c)
	if out := c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "sh", "-c", "nvidia-smi; echo code $?"); !strings.Contains(out, "code 6") {
		t.Errorf("nvidia-smi in the container: %s", out)
	}
	for _, probe := range []string{"startup", "ready", "live"} {
		c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "nvidia-driver", "probe", probe)
	}
}

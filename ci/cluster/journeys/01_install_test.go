package journeys

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
)

// helm install on a node with a GPU results in a serving driver, without a compile: modules are loaded, the
// root is served on the node. A pod that was created before the driver, and waits for it in an init
// container, then runs.
func Test01Install(t *testing.T) {
	c, table := withGPU(t)
	applyDependant(c, "before", cluster.Newer)
	helmInstall(t, c, "nvidia-driver", cluster.Newer)
	pod := waitServing(t, c, cluster.Newer)
	waitDependant(t, c, "before")
	applyDependant(c, "after", cluster.Newer)
	waitDependant(t, c, "after")
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
	states := ""
	for _, s := range table.Samples() {
		if !strings.HasSuffix(states, " "+s.State) {
			states += " " + s.State
		}
	}
	if !strings.HasSuffix(states, "starting serving") {
		t.Errorf("the states that the node saw:%s", states)
	}
}

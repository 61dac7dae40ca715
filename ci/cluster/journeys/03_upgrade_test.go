package journeys

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// The next image is pulled before its driver is wanted. helm upgrade to that driver, and back: the old pod unloads
// its driver and ends, the new one loads its own. A pod that waits for a driver meanwhile runs as soon as one serves.
func Test03Upgrade(t *testing.T) {
	c := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Older)
	waitServing(t, c, cluster.Older)

	repository, tag := c.ImageRef(cluster.Newer)
	next := repository + ":" + tag
	c.Node("ctr -n k8s.io images rm --sync " + next)
	helmUpgrade(t, c, "nvidia-driver", cluster.Older, "--set", "prePull.images={"+next+"}")
	c.Kubectl("rollout", "status", "daemonset/nvidia-driver-prepull", "-n", namespace, "--timeout=2m")
	assert.Containsf(t, c.Node("ctr -n k8s.io images ls -q"), next+"\n", "the images of the node")
	noRestarts(t, c)

	helmUpgrade(t, c, "nvidia-driver", cluster.Newer)
	c.Wait(stopWait, "the old driver's pod stops", func() error {
		if loaded := c.Loaded(); loaded == cluster.Older {
			return fmt.Errorf("%s is still loaded", loaded)
		}
		return nil
	})
	applyDependant(c, "during", cluster.Newer)
	pod := waitServing(t, c, cluster.Newer)
	waitDependant(t, c, "during")
	noRestarts(t, c)
	if out := c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "nvidia-driver", "status"); !strings.Contains(out, cluster.Newer) {
		t.Errorf("nvidia-driver status says %q", out)
	}

	c.Helm("rollback", "nvidia-driver", "-n", namespace)
	waitServing(t, c, cluster.Older)
	noRestarts(t, c)
	if n := loads(t, c); n != 3 {
		t.Errorf("drivers were loaded %d times, want 3", n)
	}
}

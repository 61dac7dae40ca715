package journeys

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster"
)

// helm upgrade to another driver, and back: the old pod unloads its driver and ends, the new one loads its
// own. A pod that waits for a driver meanwhile runs as soon as one serves.
func Test03Upgrade(t *testing.T) {
	c := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Older)
	waitServing(t, c, cluster.Older)

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

package journeys

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/cluster/sample"
)

// Without the rights that its options need, and without a folder on the node for storage: each feature is off
// with one warning, and the driver works.
func Test08Without(t *testing.T) {
	c, _ := withGPU(t)
	labelGPU(c)
	options := reportOptions("--set", "rbac.create=false", "--set", "hostStateDir=")
	helmInstall(t, c, "nvidia-driver", cluster.Older, options...)
	pod := waitServing(t, c, cluster.Older)
	noRestarts(t, c)
	log := c.Logs(pod, driverCtr)
	for _, feature := range []string{"Kubernetes Events", "the node condition NVIDIADriverReady"} {
		if n := strings.Count(log, "warning: reporting failed, the driver goes on without it feature="+strconv.Quote(feature)+": "); n != 1 {
			t.Errorf("%d warnings about %s, want one, in\n%s", n, feature, log)
		}
	}
	assert.Containsf(t, log, "forbidden", "no warning has the server's reason")
	assert.Equalf(t, "", condition(c), "there is a condition")
	if out := c.Node("cat " + featureFile + "; ls " + statePath + " 2>&1 || true"); !strings.Contains(out, "nvidia.com/driver.version.full="+cluster.Older+"\n") || !strings.Contains(out, "No such file") {
		t.Errorf("labels and storage: %s", out)
	}

	// The driver cannot request a safe load: it is replaced without one.
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, options...)
	waitServing(t, c, cluster.Newer)
	noRestarts(t, c)
	uninstall(c, "nvidia-driver")
	c.WaitGone(stopWait, "-n", namespace)
	if loaded := c.Loaded(); loaded != "" {
		t.Errorf("%s is still loaded", loaded)
	}
}

// Rights that are removed while the driver serves: the report of a change fails, with one warning.
func Test08Revoked(t *testing.T) {
	c, table := withGPU(t)
	labelGPU(c)
	helmInstall(t, c, "nvidia-driver", cluster.Newer, reportOptions()...)
	pod := waitServing(t, c, cluster.Newer)
	waitCondition(c, "True", "Serving")
	c.Kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/instance=nvidia-driver")
	table.Allow(func(s sample.Sample) bool { return len(s.Root) == 0 })
	c.Node("umount -lR /run/nvidia/driver") // simulates a mistake: the node is not ready, which cannot be reported
	c.Wait(startWait, "one warning in the log", func() error {
		log := c.Logs(pod, driverCtr)
		refused := 0 // an API server that was slow before has a warning of its own
		for line := range strings.Lines(log) {
			if strings.Contains(line, `warning: reporting failed, the driver goes on without it feature="the node condition`) && strings.Contains(line, "403 Forbidden") {
				refused++
			}
		}
		if refused != 1 {
			return errors.New(log)
		}
		return nil
	})
	assert.Equalf(t, "True Serving", condition(c), "the condition is")
	// Reports that need none of the removed rights continue.
	waitEvent(t, c, "Pod", pod.Name, "Degraded")
	noRestarts(t, c)
}

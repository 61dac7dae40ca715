package journeys

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/node/status"
)

// A release of another name is installed, first while the first one runs and then while it is being removed:
// classic driver containers crashed in a loop in this situation. The scheduler keeps the second pod away
// until the first one has ended.
func Test03Renamed(t *testing.T) {
	c, w := withGPU(t)
	helmInstall(t, c, "blue", cluster.Older)
	waitServing(t, c, cluster.Older)

	helmInstall(t, c, "green", cluster.Newer)
	waitPending(t, c, "green")
	if st := c.Status(); st.State != status.Serving || c.Loaded() != cluster.Older {
		t.Errorf("the first release does not serve any more: %+v", st)
	}
	uninstall(c, "blue")
	waitServing(t, c, cluster.Newer)
	noRestarts(t, c)

	// Install a release of the same name at once, while its pod is being deleted.
	uninstall(c, "green")
	helmInstall(t, c, "green", cluster.Older)
	if pods := c.DriverPods(); len(pods) < 2 && pods[0].DeletionTimestamp == nil {
		t.Errorf("the first pod of green was gone before the second was made: %s", cluster.Summary(pods))
	}
	waitServing(t, c, cluster.Older)
	noRestarts(t, c)
	one := true
	for _, s := range w.Samples() {
		one = one && len(s.Lockers) <= 1
	}
	if n := loads(t, c); n != 3 || !one {
		t.Errorf("drivers were loaded %d times, want 3; one instance at a time: %t", n, one)
	}
}

// A release of another name takes over while a pod uses a GPU. The first release's pod ends within its grace
// period and leaves the driver in place. A second release with the same driver adopts it, with the pod still
// running; one with another driver waits, not ready, until the pod has ended.
func Test03RenamedInUse(t *testing.T) {
	c, w := withGPU(t)
	c.AdvertiseGPUs(1)
	grace := []string{"--set", "terminationGracePeriodSeconds=30"}
	helmInstall(t, c, "blue", cluster.Older, grace...)
	waitServing(t, c, cluster.Older)
	training := user{kind: "Deployment", name: "training", requests: true, grace: 2}
	training.apply(c)
	holder := training.waitHolding(c)

	helmInstall(t, c, "green", cluster.Older, grace...)
	waitPending(t, c, "green")
	uninstall(c, "blue")
	waitServing(t, c, cluster.Older)
	noRestarts(t, c)
	if p := training.waitHolding(c); p.UID != holder.UID || loads(t, c) != 1 {
		t.Errorf("drivers were loaded %d times, want 1; the pod that uses the GPU is %s, was %s", loads(t, c), p.Name, holder.Name)
	}

	helmInstall(t, c, "red", cluster.Newer, grace...)
	waitPending(t, c, "red")
	uninstall(c, "green")
	pod := waitSuccessor(c, "red", cluster.Newer)
	waitStatus(c, startWait, "the new driver waits for "+work+"/"+holder.Name, func(st status.Snapshot) bool {
		return st.Pod == pod.Name && st.State == status.Waiting && st.WaitsFor == status.ForHolders && heldBy(st, holder)
	})
	if p := training.waitHolding(c); p.UID != holder.UID || c.Loaded() != cluster.Older {
		t.Errorf("%s is loaded; the pod that uses the GPU is %s, was %s", c.Loaded(), p.Name, holder.Name)
	}
	training.delete(c)
	waitServing(t, c, cluster.Newer)
	noRestarts(t, c)
	for _, s := range w.Samples() {
		if len(s.Lockers) > 1 {
			t.Errorf("two instances had the lock at %s: %v", s.At, s.Lockers)
		}
	}
}

// A pod that is deleted by force no longer exists for Kubernetes while its container still runs: the next pod
// starts beside it and waits for the node's lock.
func Test03Forced(t *testing.T) {
	c, _ := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Older, "--set", "updateStrategy.type=OnDelete")
	first := waitServing(t, c, cluster.Older)

	// If the driver is in use, the old container takes its whole grace period to stop.
	applyHolder(c, "user")
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, "--set", "updateStrategy.type=OnDelete")
	c.Kubectl("delete", "pod", first.Name, "-n", namespace, "--force", "--grace-period=0")

	var log string
	c.Wait(startWait, "the next pod waits", func() error {
		second, ok := podOf(c, "nvidia-driver")
		if !ok || second.Name == first.Name {
			return errors.New("there is no second pod")
		}
		var err error
		if log, err = c.TryKubectl("logs", "-n", namespace, second.Name, "-c", driverCtr); err == nil && !strings.Contains(log, "waiting") {
			err = fmt.Errorf("%s: %q", cluster.Summary(c.DriverPods()), log)
		}
		return err
	})
	t.Logf("the second pod said:\n%s", log)
	noRestarts(t, c)
	c.Kubectl("delete", "pod", "user", "--wait=false")
	begin := time.Now()
	waitServing(t, c, cluster.Newer)
	t.Logf("%s after the end of what used it", time.Since(begin).Round(time.Second))
	noRestarts(t, c)
}

package journeys

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/cluster/sample"
)

const (
	konvoySpace    = "kubeaddons"
	konvoySelector = "app=nvidia,component=driver"
	konvoyLabel    = "konvoy.mesosphere.com/gpu-provider"
)

// applyKonvoy creates or changes the DaemonSet of Konvoy's chart, and its namespace.
func applyKonvoy(t *testing.T, c *cluster.Cluster, driver string) {
	t.Helper()
	c.Apply(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + konvoySpace + `}}`)
	repository, tag := c.ImageRef(driver)
	c.Apply(testdata(t, "konvoy.yaml", "NAMESPACE", konvoySpace, "IMAGE", repository+":"+tag))
}

// The image in Konvoy's chart of 2019, whose upgrades ended in minutes of CrashLoopBackOff. Its wrapper does
// not forward signals, so that every stop is a kill: the next container cleans up, and replaces the modules
// that it finds loaded.
func Test06Konvoy(t *testing.T) {
	c, table := withGPU(t)
	table.Allow(func(s sample.Sample) bool { return len(s.Lockers) == 0 && len(s.Root) == 0 })
	c.Kubectl("label", "node", cluster.NodeName, konvoyLabel+"=NVIDIA")
	applyKonvoy(t, c, cluster.Older)
	c.Wait(startWait, "the driver serves", func() error { return wantServes(c, cluster.Older) })
	pod := waitPod(c, startWait, konvoySpace, konvoySelector, corev1.Pod{})
	if out := c.Logs(pod, driverCtr); strings.Contains(out, "means accepting its license") {
		t.Errorf("the licence was accepted with -a, but the log says: %s", out)
	}

	applyKonvoy(t, c, cluster.Newer)
	c.Wait(startWait, "the newer driver serves", func() error { return wantServes(c, cluster.Newer) })
	next := waitPod(c, startWait, konvoySpace, konvoySelector, pod)
	if pods := []corev1.Pod{next}; cluster.Restarts(pods) != 0 {
		t.Errorf("containers were started again: %s", cluster.Summary(pods))
	}
	if out := c.Kubectl("exec", "-n", konvoySpace, next.Name, "--", "nvidia-driver", "probe", "ready"); strings.Contains(out, "not ready") {
		t.Errorf("probe ready: %s", out)
	}
}

// wantServes returns an error unless that driver is loaded and served.
func wantServes(c *cluster.Cluster, driver string) error {
	st := c.Status()
	if st.Up == nil || !st.Ready {
		return fmt.Errorf("state %q: %s", st.State, st.Reason)
	}
	if loaded := c.Loaded(); loaded != driver || st.Up.Version != driver {
		return fmt.Errorf("%q is loaded, %q served", loaded, st.Up.Version)
	}
	return nil
}

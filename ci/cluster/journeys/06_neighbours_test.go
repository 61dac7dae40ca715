package journeys

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/cluster/sample"
)

// Driver pods of several owners on one node: two releases of the chart, the GPU Operator, and one that does
// not know the others. The second pod stays Pending or waits for the node's lock, is never restarted, and
// takes over when the first has ended.
func Test06Neighbours(t *testing.T) {
	c, table := withGPU(t)
	table.Allow(func(s sample.Sample) bool { return len(s.Lockers) == 0 && len(s.Root) == 0 })
	c.Kubectl("label", "node", cluster.NodeName, deployDriver+"=true", konvoyLabel+"=NVIDIA")
	helmInstall(t, c, "nvidia-driver", cluster.Older)
	first := waitServing(t, c, cluster.Older)
	applyOperator(t, c, cluster.Newer, "2001")
	pending(c, operatorSpace, operatorLabel)
	c.Kubectl("delete", "daemonset", "nvidia-driver-daemonset", "-n", operatorSpace)
	applyKonvoy(t, c, cluster.Newer)
	second := waitLocked(c, konvoySpace, konvoySelector, namespace+"/"+first.Name)
	c.Helm(append([]string{"install", "other", chartDir(t), "-n", "other", "--create-namespace"}, values(c, cluster.Older)...)...)
	pending(c, "other", driverSelector)
	if c.Loaded() != cluster.Older {
		t.Errorf("%q is loaded", c.Loaded())
	}

	uninstall(c, "nvidia-driver")
	c.Wait(startWait, "the second driver takes over", func() error { return wantServes(c, cluster.Newer) })
	third := waitLocked(c, "other", driverSelector, second.Name) // Konvoy's chart does not pass its namespace
	noKill(t, c, second)
	c.Kubectl("delete", "namespace", konvoySpace, "--wait=false")
	if pod := waitServing(t, c, cluster.Older); pod.UID != third.UID {
		t.Errorf("the pod that waited was %s, the one that serves is %s", third.Name, pod.Name)
	}
	noRestarts(t, c)
}

const driverSelector = "app.kubernetes.io/component=nvidia-driver"

// pending waits until the scheduler keeps the one pod with a label off the node because of another pod.
func pending(c *cluster.Cluster, space, selector string) {
	c.Wait(stopWait, "a pending pod with "+selector, func() error {
		pods := c.Pods("-n", space, "-l", selector)
		if len(pods) != 1 || !slices.ContainsFunc(pods[0].Status.Conditions, func(p corev1.PodCondition) bool {
			return p.Type == corev1.PodScheduled && p.Status == corev1.ConditionFalse && strings.Contains(p.Message, "anti-affinity")
		}) {
			return errors.New(cluster.Summary(pods))
		}
		return nil
	})
}

// noKill requires that no container of a pod was restarted.
func noKill(t *testing.T, c *cluster.Cluster, pod corev1.Pod) {
	t.Helper()
	if pods := c.Pods("-n", pod.Namespace, "--field-selector=metadata.name="+pod.Name); cluster.Restarts(pods) != 0 {
		t.Errorf("containers were started again: %s", cluster.Summary(pods))
	}
}

// waitLocked waits until a pod reports that it waits for the node's lock and that holder has the lock, and
// returns the pod.
func waitLocked(c *cluster.Cluster, space, selector, holder string) corev1.Pod {
	var pod corev1.Pod
	c.Wait(startWait, "a pod with "+selector+" waits for the lock", func() error {
		pods := c.Pods("-n", space, "-l", selector)
		if len(pods) != 1 || pods[0].Status.Phase != corev1.PodRunning || cluster.Restarts(pods) != 0 {
			return errors.New(cluster.Summary(pods))
		}
		pod = pods[0]
		out, err := c.TryKubectl("logs", "-n", space, pod.Name, "-c", driverCtr)
		if err == nil && !(strings.Contains(out, "waiting for the lock path=") && strings.Contains(out, holder)) {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	return pod
}

package journeys

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/node/status"
)

// A pod uses a GPU while the driver is upgraded: the old driver stays intact; the new one's pod waits, names
// that pod in every report, and continues when it has ended.
func Test04InUse(t *testing.T) {
	c, _ := withGPU(t)
	c.AdvertiseGPUs(1)
	tells := []string{"--set", "events=true", "--set", "nodeCondition=true", "--set", "terminationGracePeriodSeconds=30"}
	helmInstall(t, c, "nvidia-driver", cluster.Older, tells...)
	waitServing(t, c, cluster.Older)
	training := user{kind: "Deployment", name: "training", requests: true, grace: 2}
	training.apply(c)
	holder := training.waitHolding(c)
	name := work + "/" + holder.Name

	begin := time.Now()
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, tells...)
	pod := waitSuccessor(c, "nvidia-driver", cluster.Newer)
	waitStatus(c, startWait, "the new driver waits for "+name, func(st status.Snapshot) bool {
		return st.Pod == pod.Name && st.State == status.Waiting && st.WaitsFor == status.ForHolders && st.Wanted == cluster.Newer && heldBy(st, holder)
	})
	t.Logf("the new driver waits %s after the upgrade", time.Since(begin).Round(time.Second))
	waitEvent(t, c, "Pod", pod.Name, "WaitingForHolders", name, cluster.Older, cluster.Newer)
	waitEvent(t, c, "Node", cluster.NodeName, "WaitingForHolders", name)
	waitCondition(c, "False", "Waiting", name)
	out := c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "nvidia-driver", "status")
	assert.Containsf(t, out, "kubectl delete pod -n "+work+" "+holder.Name, "nvidia-driver status does not say what to do")
	assert.Containsf(t, c.Logs(pod, driverCtr), name, "the log does not name")
	if p, _ := podOf(c, "nvidia-driver"); cluster.Ready(p) || c.Loaded() != cluster.Older {
		t.Errorf("while it waits: %s is loaded, %s", c.Loaded(), cluster.Summary(c.DriverPods()))
	}
	if pods := c.Pods("-n", work); len(pods) != 1 || pods[0].UID != holder.UID || cluster.Restarts(pods) != 0 {
		t.Errorf("the pod that uses the GPU was disturbed: %s", cluster.Summary(pods))
	}
	training.delete(c)
	waitServing(t, c, cluster.Newer)
	waitCondition(c, "True", "Serving", cluster.Newer)
	noRestarts(t, c)
}

// The same with the safe-load handshake. The test takes the other side, that of the GPU Operator's upgrade
// controller: the driver waits until the node has been drained and the annotation is removed.
func Test04SafeLoad(t *testing.T) {
	c, _ := withGPU(t)
	c.AdvertiseGPUs(1)
	settings := []string{"--set", "safeLoad=true", "--set", "events=true", "--set", "terminationGracePeriodSeconds=30"}
	helmInstall(t, c, "nvidia-driver", cluster.Newer, settings...)
	waitServing(t, c, cluster.Newer)
	training := user{kind: "Deployment", name: "training", requests: true, grace: 2}
	training.apply(c)
	holder := training.waitHolding(c)
	helmUpgrade(t, c, "nvidia-driver", cluster.Older, settings...)
	pod := waitSuccessor(c, "nvidia-driver", cluster.Older)
	waitStatus(c, startWait, "the driver waits for safe load", func(st status.Snapshot) bool {
		return st.Pod == pod.Name && st.State == status.Waiting && st.WaitsFor == status.ForSafeLoad && heldBy(st, holder)
	})
	assert.Equalf(t, pod.Name, annotation(c, status.SafeLoadAnnotation), "the annotation says")
	waitEvent(t, c, "Pod", pod.Name, "WaitingForSafeLoad", status.SafeLoadAnnotation)

	c.Kubectl("drain", cluster.NodeName, "--ignore-daemonsets", "--pod-selector=app=training", "--timeout=2m")
	if loaded := c.Loaded(); loaded != cluster.Newer {
		t.Errorf("the node is free, but the annotation still exists: %q is loaded, not %s", loaded, cluster.Newer)
	}
	c.Kubectl("annotate", "node", cluster.NodeName, status.SafeLoadAnnotation+"-")
	waitServing(t, c, cluster.Older)
	c.Kubectl("uncordon", cluster.NodeName)
	training.waitHolding(c)
	assert.Equalf(t, "", annotation(c, status.SafeLoadAnnotation), "after it: the annotation says")
	noRestarts(t, c)
}

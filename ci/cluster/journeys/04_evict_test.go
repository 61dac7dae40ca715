package journeys

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/node/evict"
)

const devicePlugin = "nvidia.com/gpu.deploy.device-plugin"

// An upgrade with evictGPUPods while a pod uses a GPU. A disruption budget that forbids the eviction stops it
// before anything is changed. Without the budget the pod is evicted, the device plugin is paused by its
// label, DaemonSets are not changed, and in the end the node is as before, also when the container that does
// this is killed meanwhile.
func Test04Evict(t *testing.T) {
	c, _ := withGPU(t)
	c.AdvertiseGPUs(2)
	c.Kubectl("label", "node", cluster.NodeName, devicePlugin+"=true", "nvidia.com/gpu.deploy.dcgm=false")
	settings := []string{"--set", "evictGPUPods=true", "--set", "events=true", "--set", "terminationGracePeriodSeconds=30", "--set", "evict.retryAfter=5s"}
	helmInstall(t, c, "nvidia-driver", cluster.Older, settings...)
	waitServing(t, c, cluster.Older)
	training := user{kind: "Deployment", name: "training", requests: true, grace: 15}
	plugin := user{kind: "DaemonSet", name: "device-plugin", selector: devicePlugin, grace: 2}
	training.apply(c)
	plugin.apply(c)
	// This pod requests a GPU and does not use it, so it blocks nothing.
	c.Apply(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: monitor, namespace: ` + work + `}, spec: {selector: {matchLabels: {app: monitor}},
		template: {metadata: {labels: {app: monitor}}, spec: {terminationGracePeriodSeconds: 2,
		containers: [{name: holder, image: "` + cluster.HolderImage + `", args: [/dev/null], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`)
	c.Apply(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: one-left, namespace: ` + work + `},
		spec: {minAvailable: 1, selector: {matchLabels: {app: training}}}}`)
	holder := training.waitHolding(c)
	plugin.waitHolding(c)
	c.Kubectl("rollout", "status", "daemonset/monitor", "-n", work, "--timeout=1m")
	monitor := c.Pods("-n", work, "-l", "app=monitor")

	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, settings...)
	pod := waitSuccessor(c, "nvidia-driver", cluster.Newer)
	for kind, name := range map[string]string{"Pod": pod.Name, "Node": cluster.NodeName} {
		waitEvent(t, c, kind, name, "GPUEvictionBlocked", work+"/"+holder.Name, "one-left")
	}
	if r := annotation(c, evict.Annotation); cordoned(c) || r != "" || label(c, devicePlugin) != "true" || c.Loaded() != cluster.Older {
		t.Errorf("a budget is in the way, but: cordoned %t, record %q, label %q, %s is loaded", cordoned(c), r, label(c, devicePlugin), c.Loaded())
	}
	if pods := c.Pods("-n", work, "-l", "app=training"); len(pods) != 1 || pods[0].UID != holder.UID || pods[0].DeletionTimestamp != nil {
		t.Errorf("a budget protects the pod: %s", cluster.Summary(pods))
	}

	begin := time.Now()
	c.Kubectl("delete", "poddisruptionbudget", "one-left", "-n", work)
	waitServing(t, c, cluster.Newer)
	t.Logf("from the budget's end to the new driver: %s", time.Since(begin).Round(time.Second))
	for _, reason := range []string{"GPUEvictionStarted", "GPUEvictionDone"} {
		waitEvent(t, c, "Pod", pod.Name, reason)
		waitEvent(t, c, "Node", cluster.NodeName, reason)
	}
	waitPutBack(c)
	wantLabels(t, c)
	if again := training.waitHolding(c); again.UID == holder.UID {
		t.Error("the pod was not evicted")
	}
	plugin.waitHolding(c)
	if pods := c.Pods("-n", work, "-l", "app=monitor"); len(pods) != 1 || len(monitor) != 1 || pods[0].UID != monitor[0].UID {
		t.Errorf("the DaemonSet's pod was not left alone: %s", cluster.Summary(pods))
	}
	noRestarts(t, c)
	evictorKilled(t, c, training, plugin, settings)
}

// wantLabels requires that the node's labels are those that Test04Evict has set.
func wantLabels(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if plugin, dcgm := label(c, devicePlugin), label(c, "nvidia.com/gpu.deploy.dcgm"); plugin != "true" || dcgm != "false" {
		t.Errorf("labels: device-plugin %q, dcgm %q", plugin, dcgm)
	}
}

// evictorKilled returns to the older driver, and kills driver-evict while the evicted pod takes its time to
// end.
func evictorKilled(t *testing.T, c *cluster.Cluster, training, plugin user, settings []string) {
	t.Helper()
	training.delete(c)
	c.WaitGone(stopWait, "-n", work, "-l", "app=training")
	training.stubborn = true
	training.apply(c)
	holder := training.waitHolding(c)
	helmUpgrade(t, c, "nvidia-driver", cluster.Older, settings...)
	waitSuccessor(c, "nvidia-driver", cluster.Older)
	c.Wait(startWait, "the pod is being evicted", func() error {
		pods := c.Pods("-n", work, "-l", "app=training")
		if len(pods) > 0 && pods[0].UID == holder.UID && pods[0].DeletionTimestamp == nil {
			return errors.New(cluster.Summary(pods))
		}
		return nil
	})
	if r := annotation(c, evict.Annotation); !cordoned(c) || !strings.Contains(r, devicePlugin) || label(c, devicePlugin) == "true" {
		t.Errorf("in the middle: cordoned %t, record %q, label %q", cordoned(c), r, label(c, devicePlugin))
	}
	c.Node("kill -9 $(pgrep -x driver-evict)")
	c.Wait(startWait, "driver-evict is started again", func() error {
		p, ok := podOf(c, "nvidia-driver")
		if !ok || len(p.Status.InitContainerStatuses) != 1 || p.Status.InitContainerStatuses[0].RestartCount != 1 {
			return errors.New(cluster.Summary(c.DriverPods()))
		}
		return nil
	})
	waitServing(t, c, cluster.Older)
	waitPutBack(c)
	wantLabels(t, c)
	plugin.waitHolding(c)
	training.waitHolding(c)
	if p, _ := podOf(c, "nvidia-driver"); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the driver's container was started again: %s", cluster.Summary(c.DriverPods()))
	}
}

// The service account of driver-evict has no rights: the upgrade continues as without driver-evict, and the
// log names the missing right.
func Test04EvictForbidden(t *testing.T) {
	c, _ := withGPU(t)
	settings := []string{"--set", "evictGPUPods=true", "--set", "events=true", "--set", "nodeCondition=true", "--set", "rbac.create=false", "--set", "terminationGracePeriodSeconds=30"}
	helmInstall(t, c, "nvidia-driver", cluster.Older, settings...)
	waitServing(t, c, cluster.Older)
	training := user{kind: "Deployment", name: "training", grace: 2}
	training.apply(c)
	training.waitHolding(c)
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, settings...)
	pod := waitSuccessor(c, "nvidia-driver", cluster.Newer)
	c.Wait(startWait, "driver-evict and the driver say what is missing", func() error {
		for container, words := range map[string][]string{
			"driver-evict": {`grant the service account "get" on "nodes"`},
			driverCtr:      {"going on without it", "Kubernetes Events", "NVIDIADriverReady"},
		} {
			out := c.Logs(pod, container)
			for _, w := range words {
				if n := strings.Count(out, w); n != 1 {
					return fmt.Errorf("%s says %q %d times: %s", container, w, n, out)
				}
			}
		}
		return nil
	})
	training.delete(c)
	waitServing(t, c, cluster.Newer)
	if cordoned(c) {
		t.Error("the node is cordoned")
	}
	noRestarts(t, c)
}

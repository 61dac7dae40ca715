package journeys

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/cluster/sample"
	"github.com/driver-container/driver-container/ci/conformance"
	"github.com/driver-container/driver-container/ci/require"
)

const (
	operatorSpace = "gpu-operator"
	operatorLabel = "app=nvidia-driver-daemonset"
	deployDriver  = "nvidia.com/gpu.deploy.driver"
	managerCtr    = "k8s-driver-manager"
	digestFile    = "/run/nvidia/nvidia-driver.state"
	operatorStart = startWait + 70*time.Second // the operator's startup probe begins after a minute, and again every 10 s
)

// testdata returns a file of that folder, with names replaced by values.
func testdata(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text := require.Value(os.ReadFile(filepath.Join("testdata", name)))(t)
	return strings.NewReplacer(replace...).Replace(string(text))
}

// prepareOperator creates the operator's namespace with the ConfigMap of the startup probe, and returns the
// image of the driver manager.
func prepareOperator(t *testing.T, c *cluster.Cluster) (manager string) {
	t.Helper()
	if _, err := c.TryKubectl("get", "namespace", operatorSpace); err != nil {
		c.Kubectl("create", "namespace", operatorSpace)
		c.Kubectl("create", "configmap", "nvidia-driver-startup-probe", "-n", operatorSpace,
			"--from-literal=startup-probe.sh="+conformance.StartupProbe, "--from-literal=nvidia-smi=#!/bin/sh\nexit 0\n")
	}
	return c.PushProgram("../conformance/drivermanager", "driver-manager")
}

// applyOperator creates or changes the operator's DaemonSet, with a driver and a digest of its configuration,
// and the other objects that the operator creates.
func applyOperator(t *testing.T, c *cluster.Cluster, driver, digest string) {
	t.Helper()
	manager := prepareOperator(t, c)
	repository, tag := c.ImageRef(driver)
	c.Apply(testdata(t, "operator.yaml", "@NAMESPACE@", operatorSpace, "@IMAGE@", repository+":"+tag, "@MANAGER@", manager,
		"@DIGEST@", digest, "@PRESTOP@", conformance.PreStop))
}

// waitPod waits for the one ready pod with a label that is not the pod before, and returns it.
func waitPod(c *cluster.Cluster, limit time.Duration, space, selector string, before corev1.Pod) corev1.Pod {
	var pod corev1.Pod
	c.Wait(limit, "a ready pod with "+selector, func() error {
		pods := c.Pods("-n", space, "-l", selector)
		if len(pods) != 1 || !cluster.Ready(pods[0]) || pods[0].UID == before.UID {
			return errors.New(cluster.Summary(pods))
		}
		pod = pods[0]
		return nil
	})
	return pod
}

// replacePod deletes a pod, requires that all its containers end by themselves within the grace period, and
// returns the next pod as soon as that is ready.
func replacePod(t *testing.T, c *cluster.Cluster, pod corev1.Pod, selector string) corev1.Pod {
	t.Helper()
	begin := time.Now()
	stopPod(t, c, pod)
	next := waitPod(c, operatorStart, pod.Namespace, selector, pod)
	if cluster.Restarts([]corev1.Pod{next}) != 0 {
		t.Errorf("containers were started again: %s", cluster.Summary([]corev1.Pod{next}))
	}
	t.Logf("its successor was ready after %s", time.Since(begin).Round(100*time.Millisecond))
	return next
}

// stopPod deletes a pod, and requires that all its containers end by themselves within the grace period.
func stopPod(t *testing.T, c *cluster.Cluster, pod corev1.Pod) {
	t.Helper()
	begin := time.Now()
	ended := lastOf(c, pod)
	for _, s := range ended.Status.ContainerStatuses {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("container %s had to be killed, or failed: %s", s.Name, cluster.Summary([]corev1.Pod{ended}))
		}
	}
	t.Logf("pod %s: stopped in %s", pod.Name, time.Since(begin).Round(100*time.Millisecond))
}

// lastOf deletes a pod and returns the kubelet's last status of it, with the exit codes. A finalizer keeps
// the pod until then.
func lastOf(c *cluster.Cluster, pod corev1.Pod) corev1.Pod {
	finalizers := func(list string) {
		c.Kubectl("patch", "pod", pod.Name, "-n", pod.Namespace, "--type=merge", "-p", `{"metadata":{"finalizers":`+list+`}}`)
	}
	finalizers(`["journeys.test/last-look"]`)
	c.Kubectl("delete", "pod", pod.Name, "-n", pod.Namespace, "--wait=false")
	var last corev1.Pod
	c.Wait(stopWait, "the containers of "+pod.Name+" end", func() error {
		pods := c.Pods("-n", pod.Namespace, "--field-selector=metadata.name="+pod.Name)
		if len(pods) != 1 || pods[0].Status.Phase != corev1.PodSucceeded && pods[0].Status.Phase != corev1.PodFailed {
			return errors.New(cluster.Summary(pods))
		}
		last = pods[0]
		return nil
	})
	finalizers("null")
	c.WaitGone(stopWait, "-n", pod.Namespace, "--field-selector=metadata.name="+pod.Name)
	return last
}

// The image replaces the GPU Operator's driver image without changes to its DaemonSet: OnDelete, startup
// probe and preStop, mounts, 30 seconds of grace that nothing announces, the driver manager between two runs,
// and the sidecar for peer memory.
func Test06Operator(t *testing.T) {
	c, pod := operatorServes(t)
	if out := c.Node("cat /run/nvidia/validations/.driver-ctr-ready " + digestFile); strings.TrimSpace(out) != "GDRCOPY_ENABLED: false\nGDS_ENABLED: false\nGPU_DIRECT_RDMA_ENABLED: true\n1001" {
		t.Errorf("markers: %q", out)
	}
	if out := c.Logs(pod, "nvidia-peermem-ctr"); strings.Contains(out, "rror") {
		t.Errorf("the sidecar for peer memory says %s", out)
	}

	// An equal digest, in use: the pod ends within its grace period, and the next pod keeps the loaded modules,
	// although the driver manager has unmounted the root.
	training := user{kind: "Deployment", name: "training", grace: 2}
	training.apply(c)
	holder := training.waitHolding(c)
	before := loads(t, c)
	pod = replacePod(t, c, pod, operatorLabel)
	assert.Containsf(t, c.Logs(pod, managerCtr), "digest 1001 is equal", "the driver manager says")
	if out := c.Logs(pod, driverCtr); !strings.Contains(out, "state=detached") || !strings.Contains(out, "adopting it") || loads(t, c) != before {
		t.Errorf("the driver was loaded %d times before, %d times now: %s", before, loads(t, c), out)
	}
	assert.Equalf(t, holder.UID, training.waitHolding(c).UID, "the pod that uses the GPU was disturbed")

	// The same, idle.
	training.delete(c)
	c.WaitGone(stopWait, "-n", work, "-l", "app=training")
	pod = replacePod(t, c, pod, operatorLabel)

	// Another driver, idle: with OnDelete nothing happens until the pod is deleted.
	applyOperator(t, c, cluster.Newer, "1002")
	if pods := c.Pods("-n", operatorSpace, "-l", operatorLabel); len(pods) != 1 || pods[0].UID != pod.UID || pods[0].DeletionTimestamp != nil {
		t.Errorf("OnDelete, but %s", cluster.Summary(pods))
	}
	replacePod(t, c, pod, operatorLabel)
	if loaded := c.Loaded(); loaded != cluster.Newer {
		t.Errorf("%q is loaded, not %s", loaded, cluster.Newer)
	}
	operatorEnds(t, c, operatorLabel)
}

// Another driver, in use. The driver manager evicts a pod that requested a GPU, and the next driver starts.
// From a pod that requested none it cannot take the driver: it fails and is started again until that pod
// has ended. It unloads what it can each time, and leaves half of the driver behind.
func Test06OperatorInUse(t *testing.T) {
	c, pod := operatorServes(t)
	c.AdvertiseGPUs(1)
	c.Kubectl("label", "--overwrite", "node", cluster.NodeName, devicePlugin+"=true") // the driver manager left it, empty
	training := user{kind: "Deployment", name: "training", requests: true, grace: 2}
	training.apply(c)
	evicted := training.waitHolding(c)
	applyOperator(t, c, cluster.Newer, "1002")
	pod = replacePod(t, c, pod, operatorLabel)
	if out := c.Logs(pod, managerCtr); !strings.Contains(out, "evicting pod "+work+"/"+evicted.Name) || c.Loaded() != cluster.Newer {
		t.Errorf("%q is loaded; the driver manager says %q", c.Loaded(), out)
	}
	if cordoned(c) || label(c, devicePlugin) != "true" {
		t.Errorf("the node was not put back: cordoned %t, %s=%s", cordoned(c), devicePlugin, label(c, devicePlugin))
	}
	training.delete(c)
	c.WaitGone(stopWait, "-n", work, "-l", "app=training")

	other := user{kind: "Deployment", name: "other", grace: 2}
	other.apply(c)
	holder := other.waitHolding(c)
	applyOperator(t, c, cluster.Older, "1003")
	stopPod(t, c, pod)
	c.Wait(operatorStart, "the driver manager fails twice", func() error {
		pods := c.Pods("-n", operatorSpace, "-l", operatorLabel)
		if cluster.Restarts(pods) < 2 || c.Loaded() != cluster.Newer {
			return errors.New(c.Loaded() + " is loaded: " + cluster.Summary(pods))
		}
		return nil
	})
	assert.Equalf(t, holder.UID, other.waitHolding(c).UID, "the pod that uses the GPU was disturbed")
	c.Wait(time.Minute, "the node takes pods between two tries", func() error {
		if cordoned(c) {
			return errors.New("it is cordoned")
		}
		return nil
	})
	other.delete(c)
	waitPod(c, 2*operatorStart, operatorSpace, operatorLabel, pod) // the kubelet's pause between two tries grows
	if loaded := c.Loaded(); loaded != cluster.Older {
		t.Errorf("%q is loaded, not %s", loaded, cluster.Older)
	}
	operatorEnds(t, c, operatorLabel)
}

// rootless allows what is usual without a folder of the host: the driver root is the container's file system.
// It ends with the container, and the driver manager unmounts what is left of it. The next container has its
// own root a moment after its lock.
func rootless(s sample.Sample) bool { return len(s.Root) == 0 && !s.Ready }

// operatorServes returns a cluster whose node has a GPU and the operator's driver pod, with digest 1001.
func operatorServes(t *testing.T) (*cluster.Cluster, corev1.Pod) {
	t.Helper()
	c, table := withGPU(t)
	table.Allow(rootless)
	c.Kubectl("label", "node", cluster.NodeName, deployDriver+"=true")
	applyOperator(t, c, cluster.Older, "1001")
	pod := waitPod(c, operatorStart, operatorSpace, operatorLabel, corev1.Pod{})
	// The device files are in the root only, from which the container toolkit makes others for containers: a
	// device file on the node stands for those.
	c.Node("mknod /dev/nvidiactl c 195 255")
	return c, pod
}

// operatorEnds pauses the driver, as the operator does when it is removed, and requires that nothing is left.
func operatorEnds(t *testing.T, c *cluster.Cluster, selector string) {
	t.Helper()
	c.Kubectl("label", "node", cluster.NodeName, deployDriver+"=paused-for-driver-upgrade", "--overwrite")
	c.WaitGone(stopWait, "-n", operatorSpace, "-l", selector)
	if out := c.Node("cat /proc/modules | grep ^nvidia; grep ' /run/nvidia' /proc/mounts; ls -A /run/nvidia/validations; true"); strings.TrimSpace(out) != "" {
		t.Errorf("left on the node: %s", out)
	}
}

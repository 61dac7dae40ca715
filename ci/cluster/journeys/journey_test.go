package journeys

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/status"
)

// A driver's life on a node of a real Kubernetes: it is installed with the values of driver-build fleet, killed,
// uninstalled, installed in an older version, upgraded and rolled back.
func TestJourney(t *testing.T) {
	c := cluster.New(t)
	installWithFleet(t, c)
	killInstances(t, c)

	c.Kubectl("delete", "pod", "--all", "-n", "default")
	c.Helm("uninstall", "nvidia-driver", "-n", namespace)
	c.Wait(stopWait, "the driver is unloaded", func() error {
		if loaded := c.Loaded(); loaded != "" {
			return fmt.Errorf("%s is still loaded", loaded)
		}
		return nil
	})
	upgradeAndRollBack(t, c)
}

// driver-build fleet reads the nodes from the API, and helm install with the values that it writes results in
// a serving driver, without a compile: the scheduler puts the pod of fleet's pool on the node, kubelet mounts
// the image with the modules, they are loaded, the root is served on the node. A pod that was created before the
// driver, and waits for it in an init container, then runs. When the driver serves, fleet writes the same values,
// and an upgrade with them replaces nothing.
func installWithFleet(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	applyDependant(c, "before", cluster.Newer)
	f := newFleet(t, c, cluster.Newer)
	labelNode(c)
	pools, pool := f.values(t, c)
	withPools := func(command, pools string) {
		c.Helm(command, "nvidia-driver", chartDir(t), "-n", namespace, "--create-namespace", "--values", pools,
			"--set", "acceptLicense=true", "--set-json", fakeGPUEnv)
	}
	withPools("install", pools)
	pod := waitServing(t, c, cluster.Newer)
	assert.Equalf(t, pool.Name, pod.Labels["driver-container/pool"], "the pool of the pod")
	assert.Equalf(t, "debian", pool.NodeSelector["feature.node.kubernetes.io/system-os_release.ID"], "the pool selects by system")
	assert.Same(t, []string{c.ModulesRef()}, pool.ModuleImages)
	assert.Same(t, pool.NodeSelector, pod.Spec.NodeSelector)
	waitDependant(t, c, "before")
	applyDependant(c, "after", cluster.Newer)
	waitDependant(t, c, "after")
	again, _ := f.values(t, c)
	assert.Equalf(t, testfile.Read(t, pools), testfile.Read(t, again), "the values while the driver serves")
	withPools("upgrade", again)
	generations := c.Kubectl("get", "daemonsets", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name} {.items[*].metadata.generation}")
	assert.Equalf(t, "nvidia-driver-"+pool.Name+" 1", generations, "the DaemonSets after the upgrade")
	noRestarts(t, c)

	modules := c.Node("cut -d' ' -f1 /proc/modules")
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset"} {
		assert.Containsf(t, modules, name+"\n", "module %s is not loaded", name)
	}
	if up := c.Status().Up; up == nil || up.Source != status.FromMounted || up.Flavour != "proprietary" {
		t.Errorf("what is up: %+v", up)
	}
	assert.Containsf(t, c.Node("ctr -n k8s.io images inspect --content "+c.ModulesRef()), "layer.v1.tar+zstd", "what containerd has unpacked")
	wantRootWorks(t, c)
	assert.Containsf(t, c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "sh", "-c", "nvidia-smi; echo code $?"), "code 6", "nvidia-smi in the container")
	for _, probe := range []string{"startup", "ready", "live"} {
		c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "nvidia-driver", "probe", probe)
	}
}

// SIGKILL for the container's process 1, then for all its processes at once, while a pod uses the driver:
// each time kubelet restarts the container, once, and the new one adopts the driver. Nothing is unloaded.
func killInstances(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	pod := waitServing(t, c, cluster.Newer)
	applyHolder(c, "user")

	for n, victims := range []string{
		"%d",
		"$(cat /sys/fs/cgroup$(cut -d: -f3 </proc/%d/cgroup)/cgroup.procs)", // as the kernel does when memory runs out
	} {
		before := c.Status()
		c.Node(fmt.Sprintf("kill -9 "+victims, before.PID))
		c.Wait(startWait, "another instance serves", func() error {
			st := c.Status()
			if st.Instance == before.Instance || !st.Ready {
				return fmt.Errorf("%s of %s", st.State, st.Instance)
			}
			return nil
		})
		again := waitServing(t, c, cluster.Newer)
		if got := cluster.Restarts([]corev1.Pod{again}); again.Name != pod.Name || got != n+1 {
			t.Errorf("after SIGKILL number %d pod %s (was %s) has %d restarts", n+1, again.Name, pod.Name, got)
		}
		assert.Containsf(t, c.Kubectl("logs", "-n", namespace, again.Name, "-c", driverCtr), "adopt", "the second container does not say that it adopts the driver")
	}
	assert.Equalf(t, 1, loads(t, c), "loads of a driver")
	if pods := pods(t, c, "name=user"); !cluster.Ready(pods[0]) || cluster.Restarts(pods) != 0 {
		t.Errorf("the pod that uses the driver suffered: %s", cluster.Summary(pods))
	}
}

// The next image is pulled before its driver is wanted. helm upgrade to that driver, and back: the old pod unloads
// its driver and ends, the new one loads its own. A pod that waits for a driver meanwhile runs as soon as one serves.
func upgradeAndRollBack(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	before := loads(t, c)
	helm(t, c, "install", cluster.Older)
	waitServing(t, c, cluster.Older)

	repository, tag := c.ImageRef(cluster.Newer)
	next := []string{repository + ":" + tag, c.ModulesRef()}
	c.Node("ctr -n k8s.io images rm --sync " + strings.Join(next, " "))
	helm(t, c, "upgrade", cluster.Older, "--set", "prePull.images={"+strings.Join(next, ",")+"}")
	c.Kubectl("rollout", "status", "daemonset/nvidia-driver-prepull", "-n", namespace, "--timeout=2m")
	onNode := c.Node("ctr -n k8s.io images ls -q")
	for _, image := range next {
		assert.Containsf(t, onNode, image+"\n", "the images of the node")
	}
	noRestarts(t, c)

	helm(t, c, "upgrade", cluster.Newer)
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
	assert.Contains(t, c.Kubectl("exec", "-n", namespace, pod.Name, "-c", driverCtr, "--", "nvidia-driver", "status"), cluster.Newer)

	c.Helm("rollback", "nvidia-driver", "-n", namespace)
	waitServing(t, c, cluster.Older)
	noRestarts(t, c)
	assert.Equalf(t, 3, loads(t, c)-before, "loads of a driver")
}

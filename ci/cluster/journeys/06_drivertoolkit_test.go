package journeys

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/conformance"
)

const (
	coreOS       = "418.94.202503102036-0" // a version of RHEL CoreOS
	coreOSLabel  = "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION"
	toolkitLabel = "app=nvidia-driver-daemonset-" + coreOS
	toolkitCtr   = "openshift-driver-toolkit-ctr"
	sharedFolder = "/mnt/shared-nvidia-driver-toolkit"
	otherKernel  = "6.1.0-1-amd64"
	// toolkitStart is operatorStart with the compile of one module on the emulated node.
	toolkitStart = operatorStart + 10*time.Minute
)

// applyOpenShift creates or changes the DaemonSet that the operator makes on OpenShift, with the account that
// it makes everywhere.
func applyOpenShift(t *testing.T, c *cluster.Cluster, image, toolkit string) {
	t.Helper()
	manager := prepareOperator(t, c)
	account, _, _ := strings.Cut(testdata(t, "operator.yaml", "@NAMESPACE@", operatorSpace), "apiVersion: apps/v1\n")
	c.Apply(account + testdata(t, "openshift.yaml", "@NAMESPACE@", operatorSpace, "@RHCOS@", coreOS, "@IMAGE@", image, "@TOOLKIT@", toolkit,
		"@MANAGER@", manager, "@DIGEST@", "3001", "@PRESTOP@", conformance.PreStop))
}

// The operator's DaemonSet of OpenShift: the driver's image has sources only, and the container with the
// toolkit gives it the modules, which are those of driver-build byte for byte. A driver container that starts
// again in the pod takes them from the shared folder. Another pod has another folder; its toolkit is for
// another kernel, and log and Event say so.
func Test06DriverToolkit(t *testing.T) {
	c, table := withGPU(t)
	table.Allow(rootless)
	image := c.PushSources(cluster.Older)
	toolkit, modules := c.PushToolkit(cluster.Older)
	c.Kubectl("label", "node", cluster.NodeName, deployDriver+"=true", coreOSLabel+"="+coreOS)
	begin := time.Now()
	applyOpenShift(t, c, image, toolkit)
	pod := waitPod(c, toolkitStart, operatorSpace, toolkitLabel, corev1.Pod{})
	t.Logf("the pod was ready after %s", time.Since(begin).Round(time.Second))
	toolkitServed(t, c, pod, modules)

	// SIGTERM for the driver container alone: it unloads, and the kubelet starts it again.
	before := c.Status()
	c.Node(fmt.Sprintf("kill %d", before.PID))
	c.Wait(startWait, "another instance serves", func() error {
		if st := c.Status(); st.Instance == before.Instance || !st.Ready {
			return fmt.Errorf("%s of %s: %s", st.State, st.Instance, st.Reason)
		}
		return nil
	})
	again := waitPod(c, operatorStart, operatorSpace, toolkitLabel, corev1.Pod{})
	if restarts := cluster.Restarts([]corev1.Pod{again}); again.UID != pod.UID || restarts != 1 || loads(t, c) != 2 {
		t.Errorf("the driver was loaded %d times: %s", loads(t, c), cluster.Summary([]corev1.Pod{again}))
	}
	assert.Contains(t, c.Logs(again, driverCtr), "modules found that the Driver Toolkit container compiled before")
	if out := c.Logs(again, toolkitCtr); strings.Count(out, "compiling driver=") != 1 {
		t.Errorf("the toolkit container says %s", out)
	}

	other := c.PushOtherToolkit(otherKernel)
	applyOpenShift(t, c, image, other)
	stopPod(t, c, again)
	toolkitOfOther(t, c, again)
	operatorEnds(t, c, toolkitLabel)
}

// toolkitServed requires that both containers of a pod say what they did, and that the driver is loaded from
// the modules in the folder, which have these SHA-256 sums.
func toolkitServed(t *testing.T, c *cluster.Cluster, pod corev1.Pod, modules map[string]string) {
	t.Helper()
	if cluster.Restarts([]corev1.Pod{pod}) != 0 || len(pod.Status.ContainerStatuses) != 2 {
		t.Errorf("containers: %s", cluster.Summary([]corev1.Pod{pod}))
	}
	compiles := "compiles the modules of driver " + cluster.Older + " for kernel " + c.KernelRelease()
	driver, toolkit := c.Logs(pod, driverCtr), c.Logs(pod, toolkitCtr)
	assert.Contains(t, driver, "waiting for the Driver Toolkit container, which "+compiles)
	assert.Contains(t, toolkit, "+ exec "+sharedFolder+"/ocp_dtk_entrypoint dtk-build-driver")
	assert.Contains(t, toolkit, "the modules are ready for the driver container")
	waitEvent(t, c, "Pod", pod.Name, "WaitingForDriverToolkit", compiles)
	if st := c.Status(); st.Up == nil || st.Up.Source != "compiled" || c.Loaded() != cluster.Older {
		t.Errorf("%q is loaded: %+v", c.Loaded(), st)
	}
	out := c.Kubectl("exec", "-n", pod.Namespace, pod.Name, "-c", toolkitCtr, "--", "sh", "-c",
		"cd "+sharedFolder+" && ls dir_prepared driver_build_started driver_built && grep 'LD .*/nvidia-modeset.ko' compile.log && cd modules/* && sha256sum *.ko")
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset"} {
		assert.Containsf(t, out, modules[name]+"  "+name+".ko\n", "the shared folder")
	}
}

// toolkitOfOther requires that the pod after the given one says in log and Event that the toolkit is for
// another kernel, and loads nothing.
func toolkitOfOther(t *testing.T, c *cluster.Cluster, before corev1.Pod) {
	t.Helper()
	var pod corev1.Pod
	c.Wait(operatorStart, "the driver container ends without modules", func() error {
		pods := c.Pods("-n", operatorSpace, "-l", toolkitLabel)
		if len(pods) != 1 || pods[0].UID == before.UID || cluster.Restarts(pods) == 0 {
			return errors.New(cluster.Summary(pods))
		}
		pod = pods[0]
		return nil
	})
	message := "the toolkit is for kernel " + otherKernel + ", the node runs " + c.KernelRelease()
	assert.Contains(t, c.Kubectl("logs", "--previous", "-n", pod.Namespace, pod.Name, "-c", driverCtr), message)
	assert.Contains(t, c.Logs(pod, toolkitCtr), message)
	waitEvent(t, c, "Pod", pod.Name, "Failed", message)
	assert.Equal(t, "", c.Loaded())
}

package journeys

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

const (
	namespace = "nvidia-driver"
	driverCtr = "nvidia-driver-ctr"
	statePath = "/var/lib/nvidia-driver"
	startWait = 2 * time.Minute // a start on an idle machine takes about 15 s
	stopWait  = time.Minute

	// fakeGPUEnv is a value of the chart for GPUs that never initialise.
	fakeGPUEnv = `env=[{"name":"DRIVER_GPU_INIT","value":"warn"},{"name":"DRIVER_PERSISTENCE","value":"false"}]`
)

// chartDir is the chart under test.
func chartDir(t *testing.T) string {
	t.Helper()
	return require.Value(filepath.Abs("../../../deploy/chart"))(t)
}

// values select a driver's image, on a node without node feature discovery, whose GPU never initialises. More
// --set and the like follow.
func values(c *cluster.Cluster, driver string, more ...string) []string {
	repository, tag := c.ImageRef(driver)
	if driver == cluster.Newer {
		more = append(more, "--set", "moduleImages={"+c.ModulesRef()+"}")
	}
	return append([]string{
		"--set", "image.repository=" + repository, "--set-string", "image.tag=" + tag, "--set", "nfd.enabled=false", "--set", "acceptLicense=true",
		"--set-json", fakeGPUEnv,
	}, more...)
}

// helm installs or upgrades the chart with a driver.
func helm(t *testing.T, c *cluster.Cluster, command, driver string, more ...string) {
	t.Helper()
	c.Helm(append([]string{command, "nvidia-driver", chartDir(t), "-n", namespace, "--create-namespace"}, values(c, driver, more...)...)...)
}

func pods(t *testing.T, c *cluster.Cluster, selector string) []corev1.Pod {
	t.Helper()
	list := require.Value(c.Pods(selector))(t)
	if len(list) == 0 {
		t.Fatalf("no pod has %s", selector)
	}
	return list
}

// waitServing waits for one ready pod of the driver, and requires that it serves the node as the state table
// says.
func waitServing(t *testing.T, c *cluster.Cluster, driver string) corev1.Pod {
	t.Helper()
	begin := time.Now()
	_, tag := c.ImageRef(driver)
	pod := c.WaitDriver(startWait, tag)
	t.Logf("driver %s is ready after %s", driver, time.Since(begin).Round(100*time.Millisecond))
	assert.Equalf(t, driver, c.Loaded(), "loaded is")
	if st := c.Status(); st.State != status.Serving || !st.Ready || st.Pod != pod.Name || st.Up == nil || st.Up.Version != driver {
		t.Errorf("the status does not fit: %+v", st)
	}
	assert.Containsf(t, c.Node("ls /run/nvidia/driver/usr/lib/x86_64-linux-gnu/ | grep libnvidia-ml.so.; ls /dev/nvidiactl"), "libnvidia-ml.so."+driver+"\n", "the driver root")
	return pod
}

// noRestarts requires that no container of the current pods was started twice.
func noRestarts(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if pods := pods(t, c, cluster.DriverSelector); cluster.Restarts(pods) != 0 {
		t.Errorf("containers were started again: %s", cluster.Summary(pods))
	}
}

// loads returns how often modules of the driver were loaded since the node's start, by the kernel's log.
func loads(t *testing.T, c *cluster.Cluster) int {
	t.Helper()
	out := strings.TrimSpace(c.Node("dmesg | grep -c 'NVRM: loading' || true"))
	return require.Value(strconv.Atoi(out))(t)
}

// applyDependant makes a pod that waits for the driver in an init container, as device plugins and exporters
// should, and then runs.
func applyDependant(c *cluster.Cluster, name, driver string) {
	repository, tag := c.ImageRef(driver)
	c.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, labels: {name: %[1]s}}, spec: {terminationGracePeriodSeconds: 1,
		initContainers: [{name: wait-for-driver, image: "%[2]s:%[3]s", command: [nvidia-driver, wait-ready, --timeout, 1h],
			securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}},
			volumeMounts: [{name: run-nvidia, mountPath: /run/nvidia, readOnly: true}]}],
		containers: [{name: main, image: "%[4]s"}],
		volumes: [{name: run-nvidia, hostPath: {path: /run/nvidia, type: DirectoryOrCreate}}]}}`, name, repository, tag, cluster.BusyboxImage))
}

// waitDependant waits until such a pod has passed its init container, which ran once.
func waitDependant(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	c.Kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=2m")
	if pods := pods(t, c, "name="+name); cluster.Restarts(pods) != 0 {
		t.Errorf("the dependant was started again: %s", cluster.Summary(pods))
	}
}

// applyHolder makes a pod that holds the driver's control device.
func applyHolder(c *cluster.Cluster, name string) {
	c.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, labels: {name: %[1]s}}, spec: {terminationGracePeriodSeconds: 2,
		containers: [{name: holder, image: "%[2]s", command: [/busybox, sh, -c, "exec 3<>/dev/nvidiactl && echo holding && exec /busybox sleep 1d"],
			securityContext: {privileged: true}, volumeMounts: [{name: dev, mountPath: /dev}]}],
		volumes: [{name: dev, hostPath: {path: /dev}}]}}`, name, cluster.BusyboxImage))
	c.Wait(2*time.Minute, "pod "+name+" holds the device", func() error {
		out, err := c.TryKubectl("logs", name)
		if err == nil && !strings.Contains(out, "holding") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

// wantRootWorks runs nvidia-smi on the node in both ways: with the driver root's libraries, as the operator's
// validator does, and in the driver root, as administrators do. A fake GPU never initialises: nvidia-smi ends
// with 6, "No devices were found"; it would be 9 without modules or device files, 18 with modules of another
// version.
func wantRootWorks(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	out := c.Node("test -c /dev/nvidia0; root=/run/nvidia/driver; LD_PRELOAD=$root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 $root/usr/bin/nvidia-smi; echo code $?; chroot $root nvidia-smi; echo code $?")
	assert.Equalf(t, 2, strings.Count(out, "code 6"), "the driver root does not work on the node: %s", out)
}

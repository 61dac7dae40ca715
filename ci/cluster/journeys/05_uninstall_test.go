package journeys

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/node/status"
)

// inventory returns what a driver container may change on a node and in its cluster, as sorted lines.
func inventory(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	const pruned = `-path /run/containerd -o -path /run/systemd -o -path /run/udev -o -path /run/netns -o -path /run/etcd -o -path '/run/watcher.log*' -o -path /dev/pts -o -path /dev/shm`
	out := c.Node(`
		findmnt -rno TARGET | grep -vE '^(/var/lib/kubelet|/run/containerd|/run/netns|/proc/sys/fs/binfmt_misc)' | sed 's/^/mount /'
		cut -d' ' -f1 /proc/modules | sed 's/^/module /'
		find /run /dev -xdev \( ` + pruned + ` \) -prune -o -printf '%y %p %l\n'
		find /etc /var/lib/nvidia-driver /usr/local /opt /root -xdev -printf '%y %p %l\n' 2>/dev/null # the second is not there before the first installation
		echo "firmware path $(cat /sys/module/firmware_class/parameters/path)"
		ps -eo comm= | grep -E 'nvidia|driver-' | sed 's/^/process /'
		true`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var n corev1.Node
	require.NoError(t, json.Unmarshal([]byte(c.Kubectl("get", "node", cluster.NodeName, "-o", "json")), &n))
	for key, value := range n.Labels {
		lines = append(lines, "label "+key+"="+value)
	}
	for key, value := range n.Annotations {
		lines = append(lines, "annotation "+key+"="+value)
	}
	for _, taint := range n.Spec.Taints {
		lines = append(lines, "taint "+taint.ToString())
	}
	for _, condition := range n.Status.Conditions {
		lines = append(lines, "condition "+string(condition.Type))
	}
	for object := range strings.Lines(c.Kubectl("get", "daemonsets,pods,roles,rolebindings,clusterroles,clusterrolebindings,configmaps,services,serviceaccounts", "-A",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)) {
		lines = append(lines, "object "+strings.TrimSpace(object))
	}
	slices.Sort(lines)
	return lines
}

// warmUp runs a pod that is not related to drivers: the first pod of a node sets up its network.
func warmUp(c *cluster.Cluster) {
	applyPod(c, "first", "/dev/null")
	c.Kubectl("delete", "pod", "first")
}

// changed returns the lines that only one of two inventories has, except those that begin with an exception.
func changed(before, after []string, exceptions ...string) []string {
	var diff []string
	note := func(sign string, lines, other []string) {
		for _, line := range lines {
			if !slices.Contains(other, line) && !slices.ContainsFunc(exceptions, func(e string) bool { return strings.HasPrefix(line, e) }) {
				diff = append(diff, sign+line)
			}
		}
	}
	note("-", before, after)
	note("+", after, before)
	return diff
}

// remains returns what an uninstallation leaves on purpose, as docs/kubernetes.md says.
func remains() []string {
	return []string{
		"d " + statePath, "f " + statePath, "l " + statePath, // compiled modules and driver roots, for the next installation
		"d /run/nvidia ", "d /run/nvidia/driver ", "f /run/nvidia/driver-entrypoint.lock ", "f /run/nvidia/nvidia-driver.pid ", "d /run/nvidia/validations ",
		"d /etc/kubernetes/node-feature-discovery",
		"condition NVIDIADriverReady",
		"object ServiceAccount " + namespace + "/default", "object ConfigMap " + namespace + "/kube-root-ca.crt", // of the namespace
	}
}

// After helm uninstall, node and cluster are as they were before helm install.
func Test05Uninstall(t *testing.T) {
	c, _ := withGPU(t)
	labelGPU(c)
	warmUp(c)
	before := inventory(t, c)
	helmInstall(t, c, "nvidia-driver", cluster.Newer, reportOptions()...)
	waitServing(t, c, cluster.Newer)
	noRestarts(t, c)
	if diff := changed(before, inventory(t, c), remains()...); len(diff) < 10 {
		t.Errorf("what is looked at shows little of the driver: %q", diff)
	}

	begin := time.Now()
	uninstall(c, "nvidia-driver")
	c.WaitGone(stopWait, "-A", "-l", "app.kubernetes.io/component=nvidia-driver")
	t.Logf("gone after %s", time.Since(begin).Round(100*time.Millisecond))
	if diff := changed(before, inventory(t, c), remains()...); len(diff) > 0 {
		t.Errorf("the node is not as it was:\n%s", strings.Join(diff, "\n"))
	}
	if st := c.Status(); st.State != "" {
		t.Errorf("there is still a status: %+v", st)
	}
	t.Logf("what remains beside %s: %q, condition %q", statePath, changed(before, inventory(t, c), remains()[:3]...), condition(c))
}

// Uninstalled while a pod uses the driver: driver, root and device files stay, and continue to work. The next
// installation adopts them.
func Test05InUse(t *testing.T) {
	c, _ := withGPU(t)
	quick := []string{"--set", "terminationGracePeriodSeconds=30"}
	warmUp(c)
	before := inventory(t, c)
	helmInstall(t, c, "nvidia-driver", cluster.Newer, quick...)
	waitServing(t, c, cluster.Newer)
	applyHolder(c, "user")
	up := c.Status().Up

	uninstall(c, "nvidia-driver")
	c.WaitGone(stopWait, "-n", namespace)
	st := c.Status()
	if st.State != status.Detached || st.Ready || len(st.Holders) != 1 || st.Holders[0].PodName != "user" || !strings.Contains(st.Reason, "default/user") {
		t.Errorf("the status is %s, ready %t: %s, holders %+v", st.State, st.Ready, st.Reason, st.Holders)
	}
	assert.Samef(t, up, st.Up, "what is up has changed")
	if c.Loaded() != cluster.Newer {
		t.Errorf("%q is loaded", c.Loaded())
	}
	wantRootWorks(t, c)

	helmInstall(t, c, "nvidia-driver", cluster.Newer, quick...)
	pod := waitServing(t, c, cluster.Newer)
	noRestarts(t, c)
	assert.Containsf(t, c.Logs(pod, driverCtr), "adopt", "the pod does not say that it adopts the driver")
	if n := loads(t, c); n != 1 {
		t.Errorf("drivers were loaded %d times, want once", n)
	}
	if pods := c.Pods("--field-selector=metadata.name=user"); !cluster.Ready(pods[0]) {
		t.Errorf("the pod that uses the driver suffered: %s", cluster.Summary(pods))
	}

	c.Kubectl("delete", "pod", "user")
	uninstall(c, "nvidia-driver")
	c.WaitGone(stopWait, "-n", namespace)
	if diff := changed(before, inventory(t, c), remains()...); len(diff) > 0 {
		t.Errorf("the node is not as it was:\n%s", strings.Join(diff, "\n"))
	}
}

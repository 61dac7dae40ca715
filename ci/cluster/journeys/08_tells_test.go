package journeys

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
)

const featureFile = "/etc/kubernetes/node-feature-discovery/features.d/nvidia-driver"

// reportOptions switches on all options that need rights, for nodes that node feature discovery has labelled.
func reportOptions(more ...string) []string {
	return append([]string{"--set", "nfd.enabled=true", "--set", "events=true", "--set", "nodeCondition=true", "--set", "safeLoad=true"}, more...)
}

// labelGPU labels the node as node feature discovery does.
func labelGPU(c *cluster.Cluster) {
	c.Kubectl("label", "node", cluster.NodeName, "feature.node.kubernetes.io/pci-0302_10de.present=true")
}

// condition returns the status and the reason of the node's condition of the driver, "" if there is none.
func condition(c *cluster.Cluster) string {
	return c.Kubectl("get", "node", cluster.NodeName, "-o", `jsonpath={range .status.conditions[?(@.type=="NVIDIADriverReady")]}{.status} {.reason}{end}`)
}

// fetch returns a page of the driver pod, through the API server.
func fetch(c *cluster.Cluster, pod corev1.Pod, path string) string {
	return c.Kubectl("get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9835/proxy%s", pod.Namespace, pod.Name, path))
}

// wantSamples requires that metrics have lines that match.
func wantSamples(t *testing.T, page string, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if !regexp.MustCompile(`(?m)^nvidia_driver_` + e + `$`).MatchString(page) {
			t.Errorf("no sample %s in\n%s", e, page)
		}
	}
}

// What a node reports through kubectl alone, from the start to the end: Events, a condition, labels for node
// feature discovery, metrics.
func Test08Tells(t *testing.T) {
	c, _ := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Newer, reportOptions()...)
	c.Wait(time.Minute, "no pod is wanted on a node that has no label", func() error {
		out, err := c.TryKubectl("get", "daemonset", "nvidia-driver", "-n", namespace, "-o", "jsonpath={.status.observedGeneration} {.status.desiredNumberScheduled}")
		if err == nil && out != "1 0" {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
	labelGPU(c)
	pod := waitServing(t, c, cluster.Newer)
	noRestarts(t, c)

	waitCondition(c, "True", "Serving", "driver "+cluster.Newer)
	waitEvent(t, c, "Pod", pod.Name, "Serving", "driver "+cluster.Newer)
	waitEvent(t, c, "Node", cluster.NodeName, "Serving", "driver "+cluster.Newer)
	if out := c.Kubectl("describe", "node", cluster.NodeName); !regexp.MustCompile(`NVIDIADriverReady +True .*Serving`).MatchString(out) {
		t.Errorf("kubectl describe node does not show the condition:\n%s", out)
	}
	for _, label := range []string{"version.full=535.261.03", "version.major=535", "version.minor=261", "version.revision=03", "flavour=proprietary", "gpu.count=1",
		"gpu.model=10de-1eb8"} { // its name is known after it has been initialised
		assert.Containsf(t, c.Node("cat "+featureFile), "nvidia.com/driver."+label+"\n", "no label %s", label)
	}
	wantSamples(t, fetch(c, pod, "/metrics"), `info\{.*driver="535.261.03".*\} 1`, `state\{state="serving"\} 1`, `state\{state="failed"\} 0`, `ready 1`, `gpus_expected 1`,
		`gpus_working 0`, `phase_duration_seconds\{phase="load"\} [0-9.e-]+`, `blocked_unloads_total 0`)
	for _, path := range []string{"/healthz", "/readyz"} {
		if out := fetch(c, pod, path); !strings.HasPrefix(out, "ok") {
			t.Errorf("%s says %q", path, out)
		}
	}

	// The uninstallation that docs/kubernetes.md recommends: the pods still have the right to report that they
	// have stopped.
	c.Kubectl("delete", "daemonsets", "-n", namespace, "-l", "app.kubernetes.io/instance=nvidia-driver", "--cascade=foreground")
	c.WaitGone(stopWait, "-n", namespace)
	uninstall(c, "nvidia-driver")
	waitEvent(t, c, "Node", cluster.NodeName, "Stopped")
	waitCondition(c, "False", "Stopped")
	assert.Containsf(t, c.Node("ls "+featureFile+" 2>&1 || true"), "No such file", "labels are still there")
	c.Kubectl("patch", "node", cluster.NodeName, "--subresource=status", "-p", `{"status":{"conditions":[{"type":"NVIDIADriverReady","$patch":"delete"}]}}`)
	assert.Equalf(t, "", condition(c), "the condition is still there")
}

package journeys

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
)

const featureFile = "/etc/kubernetes/node-feature-discovery/features.d/nvidia-driver"

// telling switches on all that needs rights.
func telling() []string {
	return []string{"--set", "nfd.enabled=true", "--set", "events=true", "--set", "nodeCondition=true", "--set", "safeLoad=true", "--set", "terminationGracePeriodSeconds=30"}
}

// condition is the node's condition of the driver, nil where there is none.
func condition(t *testing.T, c *cluster.Cluster) *corev1.NodeCondition {
	t.Helper()
	var n corev1.Node
	if err := json.Unmarshal([]byte(c.Kubectl("get", "node", cluster.NodeName, "-o", "json")), &n); err != nil {
		t.Fatal(err)
	}
	for _, found := range n.Status.Conditions {
		if found.Type == "NVIDIADriverReady" {
			return &found
		}
	}
	return nil
}

// conditionIs waits until it has this status and reason, and returns its message.
func conditionIs(t *testing.T, c *cluster.Cluster, status corev1.ConditionStatus, reason string) string {
	t.Helper()
	message := ""
	c.Wait(time.Minute, "condition NVIDIADriverReady is "+string(status)+" "+reason, func() error {
		is := condition(t, c)
		if is == nil || is.Status != status || is.Reason != reason {
			return fmt.Errorf("%+v", is)
		}
		message = is.Message
		return nil
	})
	return message
}

// eventText waits for an Event about a pod or a node, and returns its message.
func eventText(c *cluster.Cluster, kind, name, reason string) string {
	message := ""
	c.Wait(time.Minute, "an Event "+reason+" of "+kind+" "+name, func() error {
		var seen []string
		for _, e := range c.Events() {
			if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name {
				if e.Reason == reason {
					message = e.Message
					return nil
				}
				seen = append(seen, e.Reason)
			}
		}
		return fmt.Errorf("there are %q", seen)
	})
	return message
}

// fetch gets a page of the driver pod from the node.
func fetch(c *cluster.Cluster, pod corev1.Pod, path string) string {
	return c.Node(fmt.Sprintf("busybox wget -q -O- -T 20 http://%s:9835%s", pod.Status.PodIP, path))
}

// samples checks that metrics have lines that match.
func samples(t *testing.T, page string, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if !regexp.MustCompile(`(?m)^nvidia_driver_` + e + `$`).MatchString(page) {
			t.Errorf("no sample %s in\n%s", e, page)
		}
	}
}

// What a node tells with kubectl alone: Events, a condition, labels for node feature discovery, metrics; from the start over a driver that has
// to wait to the end.
func Test08Tells(t *testing.T) {
	c, _ := withGPU(t)
	helmInstall(t, c, "nvidia-driver", cluster.Older, telling()...)
	c.Wait(time.Minute, "no pod is wanted on a node that has no label", func() error {
		out, err := c.TryKubectl("get", "daemonset", "nvidia-driver", "-n", namespace, "-o", "jsonpath={.status.observedGeneration} {.status.desiredNumberScheduled}")
		if err == nil && out != "1 0" {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
	c.Kubectl("label", "node", cluster.NodeName, "feature.node.kubernetes.io/pci-0302_10de.present=true")
	pod := waitServing(t, c, cluster.Older)
	noRestarts(t, c)

	if text := conditionIs(t, c, corev1.ConditionTrue, "Serving"); !strings.Contains(text, cluster.Older) {
		t.Errorf("the condition says %q", text)
	}
	for kind, name := range map[string]string{"Pod": pod.Name, "Node": cluster.NodeName} {
		if text := eventText(c, kind, name, "Serving"); !strings.Contains(text, "driver "+cluster.Older) {
			t.Errorf("the Event of %s says %q", kind, text)
		}
	}
	if out := c.Kubectl("describe", "node", cluster.NodeName); !strings.Contains(out, "Serving") {
		t.Errorf("kubectl describe node does not show it:\n%s", out)
	}
	if out := c.Node("cat " + featureFile); !strings.Contains(out, "nvidia.com/driver.version.full="+cluster.Older+"\n") || !strings.Contains(out, "nvidia.com/driver.gpu.model=Tesla-T4\n") {
		t.Errorf("labels: %s", out)
	}
	page := fetch(c, pod, "/metrics")
	samples(t, page, `info\{.*driver="470.256.02".*\} 1`, `state\{state="serving"\} 1`, `state\{state="failed"\} 0`, `ready 1`, `gpus_expected 1`, `gpus_working 0`,
		`phase_duration_seconds\{phase="load"\} [0-9.e-]+`, `blocked_unloads_total 0`)
	if health, ready := fetch(c, pod, "/healthz"), fetch(c, pod, "/readyz"); !strings.HasPrefix(health, "ok") || !strings.HasPrefix(ready, "ok") {
		t.Errorf("/healthz says %q, /readyz %q", health, ready)
	}

	// Another driver has to wait: for clearance, which this test gives, and for a pod that uses the old one.
	applyHolder(c, "user")
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, telling()...)
	eventText(c, "Pod", pod.Name, "Detached")
	next := waitOther(c, pod)
	conditionIs(t, c, corev1.ConditionFalse, "Waiting")
	if text := eventText(c, "Node", cluster.NodeName, "WaitingForSafeLoad"); !strings.Contains(text, "pod default/user") {
		t.Errorf("the Event says %q", text)
	}
	samples(t, fetch(c, next, "/metrics"), `info\{.*driver="470.256.02".*\} 1`, `state\{state="waiting"\} 1`, `waits_for\{what="clearance"\} 1`, `ready 0`,
		`holder_processes\{holder_namespace="default",holder_pod="user"\} 1`, `blocked_unloads_total 1`)
	if out, err := c.TryNode(time.Minute, fmt.Sprintf("busybox wget -q -O- http://%s:9835/readyz", next.Status.PodIP)); err == nil {
		t.Errorf("/readyz of a pod that waits says %q", out)
	}
	c.Kubectl("annotate", "node", cluster.NodeName, "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load-")
	if text := eventText(c, "Pod", next.Name, "WaitingForHolders"); !strings.Contains(text, "default/user") {
		t.Errorf("the Event says %q", text)
	}
	c.Kubectl("delete", "pod", "user")
	waitServing(t, c, cluster.Newer)
	noRestarts(t, c)
	conditionIs(t, c, corev1.ConditionTrue, "Serving")
	if out := c.Node("cat " + featureFile); !strings.Contains(out, "nvidia.com/driver.version.major=535\n") {
		t.Errorf("labels: %s", out)
	}

	c.Kubectl("delete", "pod", next.Name, "-n", namespace, "--wait=false")
	eventText(c, "Node", cluster.NodeName, "Stopped")
}

// waitOther waits for a pod that runs and is not this one.
func waitOther(c *cluster.Cluster, than corev1.Pod) corev1.Pod {
	var pod corev1.Pod
	c.Wait(startWait, "a successor of "+than.Name, func() error {
		pods := c.DriverPods()
		if len(pods) != 1 || pods[0].Name == than.Name || pods[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%s", cluster.Summary(pods))
		}
		pod = pods[0]
		return nil
	})
	return pod
}

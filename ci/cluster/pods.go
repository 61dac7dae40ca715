package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

// driverSelector is the label of every driver pod, of any release, operator or namespace.
const driverSelector = "app.kubernetes.io/component=nvidia-driver"

// DriverPods returns the driver pods of all namespaces, oldest first.
func (c *Cluster) DriverPods() []corev1.Pod {
	c.t.Helper()
	return c.Pods("-A", "-l", driverSelector)
}

// Pods returns the pods that `kubectl get pods` finds with these arguments, oldest first.
func (c *Cluster) Pods(args ...string) []corev1.Pod {
	c.t.Helper()
	list, err := c.pods(args...)
	require.NoError(c.t, err)
	return list
}

func (c *Cluster) pods(args ...string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if path, ok := podsPath(args); ok {
		if err := c.api.getFor(c.patience.Limit(requestLimit), path, &list); err != nil {
			return nil, err
		}
	} else {
		out, err := c.TryKubectl(append([]string{"get", "pods", "-o", "json"}, args...)...)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return nil, fmt.Errorf("kubectl get pods: %w", err)
		}
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items, nil
}

// podsPath returns the path that `kubectl get pods` with these arguments requests from the API server; ok is
// false for other arguments than the usual ones.
func podsPath(args []string) (path string, ok bool) {
	namespace, query := "/namespaces/default", url.Values{}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if name == "-A" || name == "--all-namespaces" {
			namespace = ""
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch name {
		case "-n", "--namespace":
			namespace = "/namespaces/" + url.PathEscape(value)
		case "-l", "--selector":
			query.Set("labelSelector", value)
		case "--field-selector":
			query.Set("fieldSelector", value)
		default:
			return "", false
		}
	}
	return "/api/v1" + namespace + "/pods?" + query.Encode(), true
}

// Restarts returns how often containers of pods were restarted, all together.
func Restarts(pods []corev1.Pod) int {
	n := 0
	for _, p := range pods {
		for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
			n += int(s.RestartCount)
		}
	}
	return n
}

// Ready says whether a pod is ready and not being deleted.
func Ready(p corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// WaitDriver waits until the cluster has exactly one driver pod, it is ready and has this image tag (any, if
// empty), and returns the pod.
func (c *Cluster) WaitDriver(limit time.Duration, tag string) corev1.Pod {
	c.t.Helper()
	var pod corev1.Pod
	c.Wait(limit, "a ready driver pod of "+tag, func() error {
		list, err := c.pods("-A", "-l", driverSelector)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("%d driver pods: %s", len(list), Summary(list))
		}
		pod = list[0]
		if !Ready(pod) || !strings.HasSuffix(DriverImage(pod), tag) {
			return errors.New(Summary(list))
		}
		return nil
	})
	return pod
}

// DriverImage returns the image of a pod's driver container.
func DriverImage(p corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if c.Name == "nvidia-driver-ctr" {
			return c.Image
		}
	}
	return ""
}

// Summary returns a line about each pod, for messages.
func Summary(pods []corev1.Pod) string {
	var lines []string
	for _, p := range pods {
		var state strings.Builder
		for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
			switch {
			case s.State.Waiting != nil:
				fmt.Fprintf(&state, " %s:%s", s.Name, s.State.Waiting.Reason)
			case s.State.Terminated != nil:
				fmt.Fprintf(&state, " %s:ended %d", s.Name, s.State.Terminated.ExitCode)
			default:
				fmt.Fprintf(&state, " %s:running ready=%t", s.Name, s.Ready)
			}
		}
		lines = append(lines, fmt.Sprintf("%s/%s %s restarts=%d deleting=%t%s", p.Namespace, p.Name, p.Status.Phase, Restarts([]corev1.Pod{p}), p.DeletionTimestamp != nil, state.String()))
	}
	return strings.Join(lines, "; ")
}

// Events returns all events of the cluster, oldest first.
func (c *Cluster) Events() []corev1.Event {
	c.t.Helper()
	var list corev1.EventList
	require.NoError(c.t, json.Unmarshal([]byte(c.Kubectl("get", "events", "-A", "-o", "json")), &list))
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

// Logs returns the output of a pod's container; previous: of the container before its restart.
func (c *Cluster) Logs(p corev1.Pod, container string) string {
	c.t.Helper()
	return c.Kubectl("logs", "-n", p.Namespace, p.Name, "-c", container)
}

// Status returns the content of the status file on the node; the zero status if the file is missing.
func (c *Cluster) Status() status.Snapshot {
	c.t.Helper()
	var st status.Snapshot
	text := c.Node("cat /run/nvidia/driver-status.json 2>/dev/null || true")
	if text != "" {
		require.NoError(c.t, json.Unmarshal([]byte(text), &st))
	}
	return st
}

// Loaded returns the version of the driver in the node's kernel, "" for none.
func (c *Cluster) Loaded() string {
	c.t.Helper()
	return strings.TrimSpace(c.Node("cat /sys/module/nvidia/version 2>/dev/null || true"))
}

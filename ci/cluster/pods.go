package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

// DriverSelector is the label of every driver pod, of any release, operator or namespace.
const DriverSelector = "app.kubernetes.io/component=nvidia-driver"

// Pods returns the pods of all namespaces with a label, oldest first.
func (c *Cluster) Pods(selector string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Patience.Limit(requestLimit))
	defer cancel()
	list, err := c.core.Pods("").List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(
		list.Items,
		func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) },
	)
	return list.Items, nil
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
	return p.DeletionTimestamp == nil &&
		slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// WaitDriver waits until the cluster has exactly one driver pod, it is ready and has this image tag
// (any, if empty), and returns the pod.
func (c *Cluster) WaitDriver(limit time.Duration, tag string) corev1.Pod {
	c.T.Helper()
	var pod corev1.Pod
	c.Wait(limit, "a ready driver pod of "+tag, func() error {
		list, err := c.Pods(DriverSelector)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("%d driver pods: %s", len(list), Summary(list))
		}
		pod = list[0]
		if !Ready(pod) ||
			!slices.ContainsFunc(
				pod.Spec.Containers,
				func(c corev1.Container) bool { return strings.HasSuffix(c.Image, tag) },
			) {
			return errors.New(Summary(list))
		}
		return nil
	})
	return pod
}

// Summary returns a line about each pod, for messages.
func Summary(pods []corev1.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		fmt.Fprintf(
			&b,
			"%s/%s %s deleting=%t",
			p.Namespace,
			p.Name,
			p.Status.Phase,
			p.DeletionTimestamp != nil,
		)
		for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
			fmt.Fprintf(
				&b,
				" %s: ready=%t restarts=%d %s",
				s.Name,
				s.Ready,
				s.RestartCount,
				s.State.String(),
			)
		}
		b.WriteString("; ")
	}
	return b.String()
}

// Status returns the content of the status file on the node; the zero status if the file is
// missing.
func (c *Cluster) Status() status.Snapshot {
	c.T.Helper()
	var st status.Snapshot
	text := c.Node("cat /run/nvidia/driver-status.json 2>/dev/null || true")
	if text != "" {
		require.NoError(c.T, json.Unmarshal([]byte(text), &st))
	}
	return st
}

// Loaded returns the version of the driver in the node's kernel, "" for none.
func (c *Cluster) Loaded() string {
	c.T.Helper()
	return strings.TrimSpace(c.Node("cat /sys/module/nvidia/version 2>/dev/null || true"))
}

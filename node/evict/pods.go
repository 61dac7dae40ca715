package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/kmod"
)

// kind says how a pod is treated in an upgrade.
type kind int

const (
	ignored   kind = iota // does not use a GPU, or may not be ended by this program
	target                // to be evicted
	unmanaged             // uses a GPU and has no controller that would recreate it
	operand               // of a daemon that is paused, or of a ComputeDomain: its DaemonSet removes it
	plugin                // of NVIDIA's DRA driver: paused last
	daemon                // uses the driver and belongs to a DaemonSet that is not paused
	static                // uses the driver and belongs to the node
)

// classify decides by the pod, by the UIDs of the pods that hold the driver or claims on its devices, and by
// the labels that are paused.
func (c Config) classify(p *corev1.Pod, users map[types.UID]bool, pausedLabels map[string]string) kind {
	if string(p.UID) == c.UID || isFinished(p) {
		return ignored
	}
	owner := metav1.GetControllerOf(p)
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	ofDaemonSet := owner != nil && owner.Kind == "DaemonSet"
	ofNode := mirror || owner != nil && owner.Kind == "Node"
	switch {
	case ofDaemonSet && selects(p, pausedLabels, pluginLabel):
		return plugin
	case ofDaemonSet && (selectsAny(p.Spec.NodeSelector, pausedLabels) || c.ResourceClaims && users[p.UID] && p.Spec.NodeSelector[domainLabel] != ""):
		return operand
	case !usesGPU(&p.Spec) && !users[p.UID], (ofDaemonSet || ofNode) && !users[p.UID]:
		return ignored
	case ofNode:
		return static
	case ofDaemonSet:
		return daemon
	case owner == nil && p.DeletionTimestamp == nil && !c.Force:
		return unmanaged
	}
	return target
}

func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// selects says whether a pod's node selector names a label, and the label is one of labels.
func selects(p *corev1.Pod, labels map[string]string, key string) bool {
	_, selected := p.Spec.NodeSelector[key]
	_, listed := labels[key]
	return selected && listed
}

// selectsAny says whether a node selector names one of the labels. The selector of a DaemonSet is that of its
// pods, so this shows which label keeps a pod on the node.
func selectsAny(selector, labels map[string]string) bool {
	for key := range selector {
		if _, ok := labels[key]; ok {
			return true
		}
	}
	return false
}

// usesGPU says whether a pod requests any of NVIDIA's resources: nvidia.com/gpu, shared and renamed ones, MIG
// slices.
func usesGPU(s *corev1.PodSpec) bool {
	nvidia := func(r corev1.ResourceRequirements) bool {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name, quantity := range list {
				if strings.HasPrefix(string(name), "nvidia.com/") && !quantity.IsZero() {
					return true
				}
			}
		}
		return false
	}
	uses := func(c corev1.Container) bool { return nvidia(c.Resources) }
	return slices.ContainsFunc(s.Containers, uses) || slices.ContainsFunc(s.InitContainers, uses) || s.Resources != nil && nvidia(*s.Resources)
}

// pods lists the pods on this node, finished ones included.
func (a *Agent) pods(ctx context.Context) ([]corev1.Pod, error) {
	const page, most = 500, 20 // ten thousand pods: no node has as many
	var out []corev1.Pod
	more := ""
	for range most {
		req := a.core.Get().Resource("pods").Param("limit", strconv.Itoa(page)).
			Param("fieldSelector", fields.OneTermEqualSelector("spec.nodeName", a.cfg.Node).String())
		if more != "" {
			req = req.Param("continue", more)
		}
		list := &corev1.PodList{}
		if err := req.Do(ctx).Into(list); err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w%s", a.cfg.Node, err, missingPermission(err, "list", "pods"))
		}
		out = append(out, list.Items...)
		if more = list.Continue; more == "" {
			return out, nil
		}
	}
	return nil, errors.New("list the pods of node " + a.cfg.Node + ": there are more than this program reads")
}

// holdersOf returns the UIDs of the pods that the driver reports as holders.
func holdersOf(holders []kmod.Holder) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, h := range holders {
		if h.Pod != "" {
			out[types.UID(h.Pod)] = true
		}
	}
	return out
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

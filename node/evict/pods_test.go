package evict

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	terminating := func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	phase := func(ph corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = ph } }
	anyGPU := gpu("nvidia.com/gpu")
	limits := corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("2")}
	pausedLabels := map[string]string{deploy + "device-plugin": "true"}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		holds bool
		force bool
		want  kind
	}{
		"GPU":                 {pod: pod("p", "ReplicaSet", anyGPU), want: target},
		"GPU of a Job":        {pod: pod("p", "Job", anyGPU), want: target},
		"GPU, pending":        {pod: pod("p", "ReplicaSet", anyGPU, phase(corev1.PodPending)), want: target},
		"GPU, unknown state":  {pod: pod("p", "ReplicaSet", anyGPU, phase(corev1.PodUnknown)), want: target},
		"MIG slice":           {pod: pod("p", "ReplicaSet", gpu("nvidia.com/mig-3g.20gb")), want: target},
		"shared, in requests": {pod: pod("p", "ReplicaSet", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = limits }), want: target},
		"in an init container": {pod: pod("p", "ReplicaSet", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}
		}), want: target},
		"of the pod as a whole": {pod: pod("p", "ReplicaSet", func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Limits: limits} }), want: target},
		"none of it": {pod: pod("p", "ReplicaSet", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}
		}), want: bystander},
		"another maker's":           {pod: pod("p", "ReplicaSet", gpu("amd.com/gpu")), want: bystander},
		"a name that looks like it": {pod: pod("p", "ReplicaSet", gpu("nvidia.community/gpu")), want: bystander},
		"finished":                  {pod: pod("p", "Job", anyGPU, phase(corev1.PodSucceeded)), want: bystander},
		"failed":                    {pod: pod("p", "Job", anyGPU, phase(corev1.PodFailed)), want: bystander},
		"our own":                   {pod: pod("me", "DaemonSet", anyGPU), holds: true, want: bystander},
		"alone":                     {pod: pod("p", "", anyGPU), want: unmanaged},
		"alone, forced":             {pod: pod("p", "", anyGPU), force: true, want: target},
		"alone, ends already":       {pod: pod("p", "", anyGPU, terminating), want: target},
		"alone, no GPU":             {pod: pod("p", ""), want: bystander},
		"static":                    {pod: pod("p", "Node", anyGPU, mirror), force: true, want: bystander},
		"static, old server":        {pod: pod("p", "", anyGPU, mirror), force: true, want: bystander},
		"static, holds":             {pod: pod("p", "Node", mirror), holds: true, want: fixed},
		"DaemonSet":                 {pod: pod("p", "DaemonSet", anyGPU), force: true, want: bystander},
		"DaemonSet, holds":          {pod: pod("p", "DaemonSet"), holds: true, want: fixed},
		"operand":                   {pod: pod("p", "DaemonSet", selector(deploy+"device-plugin", "true")), want: operand},
		"operand, holds":            {pod: pod("p", "DaemonSet", selector(deploy+"device-plugin", "true")), holds: true, want: operand},
		"another's selector":        {pod: pod("p", "DaemonSet", selector(deploy+"dcgm", "true")), want: bystander},
		"holds":                     {pod: pod("p", "ReplicaSet"), holds: true, want: target},
		"selector, no DaemonSet":    {pod: pod("p", "ReplicaSet", selector(deploy+"device-plugin", "true")), want: bystander},
	} {
		holders := map[types.UID]bool{}
		if tc.holds {
			holders[tc.pod.UID] = true
		}
		c := Config{UID: "uid-me", Force: tc.force}
		if got := c.classify(tc.pod, holders, pausedLabels); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

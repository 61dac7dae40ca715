package evict

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	terminating := func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	phase := func(ph corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = ph } }
	anyGPU := gpu("nvidia.com/gpu")
	limits := corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("2")}
	pausedLabels := map[string]string{deployPrefix + "device-plugin": "true", pluginLabel: "true"}
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
		}), want: ignored},
		"another maker's":           {pod: pod("p", "ReplicaSet", gpu("amd.com/gpu")), want: ignored},
		"a name that looks like it": {pod: pod("p", "ReplicaSet", gpu("nvidia.community/gpu")), want: ignored},
		"finished":                  {pod: pod("p", "Job", anyGPU, phase(corev1.PodSucceeded)), want: ignored},
		"failed":                    {pod: pod("p", "Job", anyGPU, phase(corev1.PodFailed)), want: ignored},
		"our own":                   {pod: pod("me", "DaemonSet", anyGPU), holds: true, want: ignored},
		"alone":                     {pod: pod("p", "", anyGPU), want: unmanaged},
		"alone, forced":             {pod: pod("p", "", anyGPU), force: true, want: target},
		"alone, ends already":       {pod: pod("p", "", anyGPU, terminating), want: target},
		"alone, no GPU":             {pod: pod("p", ""), want: ignored},
		"static":                    {pod: pod("p", "Node", anyGPU, mirror), force: true, want: ignored},
		"static, old server":        {pod: pod("p", "", anyGPU, mirror), force: true, want: ignored},
		"static, holds":             {pod: pod("p", "Node", mirror), holds: true, want: static},
		"DaemonSet":                 {pod: pod("p", "DaemonSet", anyGPU), force: true, want: ignored},
		"DaemonSet, holds":          {pod: pod("p", "DaemonSet"), holds: true, want: daemon},
		"kubelet plugin":            {pod: pod("p", "DaemonSet", selector(pluginLabel, "true")), holds: true, want: plugin},
		"ComputeDomain's daemon":    {pod: pod("p", "DaemonSet", selector(domainLabel, "uid-of-domain")), holds: true, want: operand},
		"another with its selector": {pod: pod("p", "ReplicaSet", selector(pluginLabel, "true")), want: ignored},
		"operand":                   {pod: pod("p", "DaemonSet", selector(deployPrefix+"device-plugin", "true")), want: operand},
		"operand, holds":            {pod: pod("p", "DaemonSet", selector(deployPrefix+"device-plugin", "true")), holds: true, want: operand},
		"another's selector":        {pod: pod("p", "DaemonSet", selector(deployPrefix+"dcgm", "true")), want: ignored},
		"holds":                     {pod: pod("p", "ReplicaSet"), holds: true, want: target},
		"selector, no DaemonSet":    {pod: pod("p", "ReplicaSet", selector(deployPrefix+"device-plugin", "true")), want: ignored},
	} {
		holders := map[string]bool{string(tc.pod.UID): tc.holds}
		c := Config{UID: "uid-me", Force: tc.force, ResourceClaims: true}
		assert.Equalf(t, tc.want, c.classify(ours(tc.pod), holders, pausedLabels), "%s", name)
	}
}

func TestEviction(t *testing.T) {
	t.Parallel()
	webhook := apitest.Refuse(400, "admission webhook does not support dry run")
	twoBudgets := apitest.Refuse(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	for name, tc := range map[string]struct {
		answer   error
		trial    bool
		grace    int64 // default: the pod's own
		namesake bool  // a pod of this name has another UID: the next one of a StatefulSet
		want     string
	}{
		"yes":                  {},
		"yes, trial":           {trial: true},
		"grace period":         {grace: 30},
		"gone":                 {answer: apitest.Refuse(404, "no such pod")},
		"namesake":             {namesake: true},
		"namespace ends":       {answer: caused(403, "namespace is being terminated", corev1.NamespaceTerminatingCause, "")},
		"budget":               {answer: budgetSays("b"), want: "a PodDisruptionBudget does not allow it: The disruption budget b needs 1 healthy pods and has 1 currently"},
		"two budgets":          {answer: twoBudgets, want: "leave one budget"},
		"busy":                 {answer: apitest.Refuse(429, "the server is busy"), want: "the server is busy"},
		"no rights":            {answer: apitest.Refuse(403, "pods/eviction is forbidden"), want: "(the chart does that with evictGPUPods"},
		"a webhook":            {answer: webhook, want: "webhook"},
		"a webhook, trial":     {answer: webhook, trial: true},
		"the server is broken": {answer: apitest.Refuse(500, "etcd"), want: "etcd"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, pod("train", "Job", gpu("nvidia.com/gpu")))
			b.node.Spec.Unschedulable, b.budget = true, func(string) error { return tc.answer }
			if tc.grace > 0 {
				b.cfg.GracePeriod = tc.grace
			}
			seen := ours(b.pods[0])
			if tc.namesake {
				b.pods[0].UID = "uid-of-another"
			}
			refused := b.agent().evict(t.Context(), seen, tc.trial).reason
			assert.Equalf(t, tc.want == "", refused == "", "%s: %q", name, refused)
			assert.Containsf(t, refused, tc.want, "%s", name)
			evicted := refused == "" && tc.answer == nil && !tc.trial && !tc.namesake
			assert.Equalf(t, evicted, b.pods[0].DeletionTimestamp != nil, "%s: evicted", name)
			assert.Equalf(t, tc.grace > 0, b.grace != nil && *b.grace == tc.grace, "%s: grace period", name)
		})
	}
}

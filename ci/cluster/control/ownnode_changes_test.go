package control_test

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/status"
)

// A change is one that a token may want to make to a node, as a part of a patch.
type change struct {
	part    string // of the object: labels, annotations, ...; two changes of a part do not go together
	patch   map[string]any
	allowed bool
	status  bool // needs the subresource
}

// changes are of all parts of a node. A taint's list replaces the one that is there.
func changes() []change {
	metadata := func(part, key string, value any, allowed bool) change {
		return change{part + key, map[string]any{"metadata": map[string]any{part: map[string]any{key: value}}}, allowed, false}
	}
	spec := func(key string, value any, allowed bool) change {
		return change{key, map[string]any{"spec": map[string]any{key: value}}, allowed, false}
	}
	inStatus := func(key string, value any, allowed bool) change {
		return change{key, map[string]any{"status": map[string]any{key: value}}, allowed, true}
	}
	taint := func(key, value string, effect corev1.TaintEffect) map[string]any {
		return map[string]any{"key": key, "value": value, "effect": effect}
	}
	other := taint("example.com/other", "y", corev1.TaintEffectNoSchedule)
	first := taint(starting, "x", corev1.TaintEffectNoSchedule)
	second := taint(starting, "", corev1.TaintEffectNoExecute)
	conditions := func(key string) []any { return []any{map[string]any{"type": key, "status": "False"}} }
	owner := map[string]any{"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "x"}
	return []change{
		metadata("labels", "nvidia.com/gpu.deploy.dcgm", "paused-for-driver-upgrade", true),
		metadata("labels", "nvidia.com/gpu.deploy.device-plugin", "true", true),
		metadata("labels", "node-restriction.kubernetes.io/tenant", "a", false),
		metadata("labels", "node-role.kubernetes.io/control-plane", "", false),
		metadata("labels", "node-role.kubernetes.io/gpu", nil, false),
		metadata("labels", "kubernetes.io/hostname", "b", false),
		metadata("labels", "team", "y", false),
		metadata("labels", "nvidia.com/gpu.deploy", "true", false),
		metadata("annotations", evict.Annotation, "{}", true),
		metadata("annotations", status.SafeLoadAnnotation, "driver", true),
		metadata("annotations", "note", nil, false),
		metadata("annotations", "nvidia.com/gpu-driver-upgrade-enabled", "false", false),
		{"finalizers", map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/x"}}}, false, false},
		{"ownerReferences", map[string]any{"metadata": map[string]any{"ownerReferences": []any{owner}}}, false, false},
		spec("unschedulable", true, true),
		spec("taints", []any{other}, true),
		spec("taints", []any{other, second}, true),
		spec("taints", []any{first, second}, false),
		spec("taints", []any{}, false),
		spec("taints", []any{other, first, second, taint("node.kubernetes.io/unschedulable", "", corev1.TaintEffectNoSchedule)}, false),
		spec("taints", []any{taint("example.com/other", "z", corev1.TaintEffectNoSchedule), first, second}, false),
		spec("providerID", "aws:///x", false),
		spec("podCIDR", "10.1.0.0/24", false),
		inStatus("conditions", conditions("NVIDIADriverReady"), true),
		inStatus("conditions", conditions("Ready"), false),
		inStatus("conditions", conditions("NVIDIADriverReady.x"), false),
		inStatus("conditions", []any{map[string]any{"type": "Ready", "$patch": "delete"}}, false),
		inStatus("capacity", map[string]any{"nvidia.com/gpu": "16"}, false),
		inStatus("nodeInfo", map[string]any{"kernelVersion": "x"}, false),
		inStatus("addresses", []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}}, false),
		inStatus("daemonEndpoints", map[string]any{"kubeletEndpoint": map[string]any{"Port": 1}}, false),
	}
}

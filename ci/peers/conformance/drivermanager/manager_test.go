package main

import "testing"

// The values of the operands' labels, as k8s-driver-manager changes them and changes them back.
func TestLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, during, after string }{
		{"", "", ""},
		{"true", "paused-for-driver-upgrade", "true"},
		{"false", "false", "false"},
		{"paused-for-driver-upgrade", "paused-for-driver-upgrade", "true"}, // an earlier run was killed
		{"all", "all_paused-for-driver-upgrade", "all"},
		{"all_paused-for-driver-upgrade", "all_paused-for-driver-upgrade", "all"},
	} {
		during, after := pausedValue(c.before), resumedValue(c.before)
		if during != c.during || after != c.after || resumedValue(during) != c.after {
			t.Errorf("%q is %q during an upgrade and %q after it, want %q and %q", c.before, during, after, c.during, c.after)
		}
	}
}

// Only pods that request GPUs, or parts of them, are evicted.
func TestWantsGPU(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"nvidia.com/gpu": true, "nvidia.com/gpu.shared": true, "nvidia.com/mig-1g.5gb": true, "cpu": false, "amd.com/gpu": false} {
		var p pod
		p.Spec.Containers = make([]struct {
			Resources struct{ Limits, Requests map[string]any } `json:"resources"`
		}, 1)
		p.Spec.Containers[0].Resources.Limits = map[string]any{name: "1"}
		if p.wantsGPU() != want {
			t.Errorf("a pod with %s: %t, want %t", name, !want, want)
		}
	}
}

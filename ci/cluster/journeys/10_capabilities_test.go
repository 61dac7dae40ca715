package journeys

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
)

// leastNeeds is the table of docs/least-privilege.md: what happens without a capability. skip names a check
// to turn off that would report the problem early, so that the kernel's own answer shows.
var leastNeeds = []struct {
	drop, skip string
	says       string // in the pod's termination message, or in the status of a pod that serves
	serves     bool
}{
	{"SYS_MODULE", "", "the container lacks CAP_SYS_MODULE", false},
	{"SYS_MODULE", "privileges", "operation not permitted", false},
	{"MKNOD", "", "the container lacks CAP_MKNOD", false},
	{"MKNOD", "privileges", "needs CAP_MKNOD", false},
	{"SYS_PTRACE", "", "the container lacks CAP_SYS_PTRACE", true},
	{"DAC_READ_SEARCH", "", "the container lacks CAP_DAC_READ_SEARCH", true},
}

// Each capability is needed, and a pod that lacks one reports which.
func Test10Capabilities(t *testing.T) {
	l := least{t, cluster.New(t)}
	l.Kubectl("create", "namespace", leastSpace)
	// This driver's kernel module refuses a K80; only the kernel's log has the reason.
	l.PlugGPU(t, fakegpu.K80)
	const why = "supported through the NVIDIA 470.xx Legacy drivers"
	for _, drop := range []string{"", "SYSLOG"} {
		end := l.without(drop, "")
		if text := l.lastWords(); strings.Contains(text, why) != (drop == "") {
			t.Errorf("without %q: %s", drop, text)
		}
		end()
	}
	l.PlugGPU(t, fakegpu.T4)
	for _, need := range leastNeeds {
		t.Run(need.drop+need.skip, func(t *testing.T) {
			end := l.without(need.drop, need.skip)
			defer end()
			if !need.serves {
				assert.Containsf(t, l.lastWords(), need.says, "last words")
				return
			}
			pod := l.ready(cluster.Newer)
			if st := l.Status(); !strings.Contains(strings.Join(st.Warnings, "\n"), need.says) {
				t.Errorf("warnings: %q", st.Warnings)
			}
			// The pod of a user who is not root is not named.
			l.user("training")
			out, err := l.TryKubectl("exec", "-n", leastSpace, pod.Name, "--", "nvidia-driver", "holders")
			if strings.Contains(out, "training") || !strings.Contains(out, "module nvidia") {
				t.Errorf("holders: %s, %v", out, err)
			}
			l.Kubectl("delete", "pod", "training")
		})
	}
}

// without applies the chart's manifests for a variant that lacks a capability; the returned function removes
// everything again.
func (l least) without(drop, skip string) (end func()) {
	l.t.Helper()
	manifests := l.Helm(append(append([]string{"template", "gpu", "../../../deploy/chart", "--no-hooks", "--namespace", leastSpace}, l.values(cluster.Newer)...),
		"--set", "preflight.onFailure=exit", "--set-json", fmt.Sprintf(`env=[{"name":"DRIVER_GPU_INIT","value":"warn"},{"name":"DRIVER_SKIP_PREFLIGHT","value":"gpu-supported,%s"}]`, skip))...)
	var kept []string
	for line := range strings.Lines(manifests) {
		if drop == "" || !strings.HasPrefix(strings.TrimSpace(line), "- "+drop+" ") {
			kept = append(kept, line)
		}
	}
	changed := strings.Join(kept, "")
	if (changed == manifests) != (drop == "") {
		l.t.Fatalf("the manifests do not name %s:\n%s", drop, manifests)
	}
	l.Apply(changed)
	return func() {
		l.Kubectl("delete", "daemonset", "--all", "-n", leastSpace)
		l.WaitGone(cluster.RolloutLimit, "-n", leastSpace)
	}
}

// lastWords returns the termination message of a driver container that has ended.
func (l least) lastWords() (text string) {
	l.t.Helper()
	l.Wait(cluster.RolloutLimit, "the driver container ends with an error", func() error {
		pods := l.DriverPods()
		for _, p := range pods {
			for _, s := range p.Status.ContainerStatuses {
				for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
					if state.Terminated != nil && state.Terminated.ExitCode != 0 {
						text = state.Terminated.Message
						return nil
					}
				}
			}
		}
		return fmt.Errorf("%s", cluster.Summary(pods))
	})
	return text
}

package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestAPIServer sends every object of every rendered variant to a real API server, which checks all of it and
// stores nothing.
func TestAPIServer(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true})
	monitoring(t, p)
	nodeFeatures(t, p)
	readiness(t, p)
	namespace(t, p, "gpu-system")
	namespace(t, p, "nvidia-driver")
	p.Wait(time.Minute, "the service account of the test pods", func() error {
		_, err := p.TryKubectl("get", "serviceaccount", "default", "-n", "gpu-system")
		return err
	})
	monitors := filepath.Join(t.TempDir(), "monitors.yaml")
	rendered := require.Value(template(t, minimal("podMonitor.enabled=true", "prometheusRule.enabled=true", "prometheusRule.annotations.a=b",
		"dashboard.enabled=true", "dashboard.annotations.grafana_folder=GPUs")...))(t)
	require.NoError(t, os.WriteFile(monitors, []byte(rendered), 0o600))
	for _, path := range append(glob(t, "testdata/golden/*.yaml"), monitors) {
		t.Run(base(path), func(t *testing.T) {
			// strict: a field that does not exist is an error. Warnings are: deprecated, or ignored, or Pod Security.
			out, err := p.With(t).TryKubectl("apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", path)
			assert.NoError(t, err)
			t.Log(out)
		})
	}
	t.Run("Pod Security", func(t *testing.T) { podSecurity(t, p.With(t)) })
}

// podSecurity checks the pods themselves. For a DaemonSet that violates a namespace's level the API server
// only warns; it refuses the pods one by one, when it is too late for helm to report it.
func podSecurity(t *testing.T, p *control.Plane) {
	for _, level := range []string{"privileged", "baseline", "restricted"} {
		p.Kubectl("create", "namespace", level)
		p.Kubectl("label", "namespace", level, "pod-security.kubernetes.io/enforce="+level)
		p.Wait(time.Minute, "the service account of the namespace", func() error {
			_, err := p.TryKubectl("get", "serviceaccount", "default", "-n", level)
			return err
		})
	}
	for _, tc := range []struct {
		values  string
		reasons []string
	}{
		{"bare", []string{"host namespaces (hostPID=true)", "hostPath volumes", "privileged (container"}},
		{"options", []string{"host namespaces (hostPID=true)", "hostPath volumes", "privileged (container"}},
		{"pools", []string{"host namespaces (hostPID=true)", "hostPath volumes", "privileged (container"}},
	} {
		t.Run(tc.values, func(t *testing.T) {
			p := p.With(t)
			for _, pod := range pods(t, "testdata/golden/"+tc.values+".yaml") {
				assert.NoErrorf(t, assert.Err(p.KubectlInput(pod, "create", "--dry-run=server", "-n", "privileged", "-f", "-")), "privileged: %s", pod)
				_, err := p.KubectlInput(pod, "create", "--dry-run=server", "-n", "baseline", "-f", "-")
				for _, want := range append([]string{`violates PodSecurity "baseline:latest"`}, tc.reasons...) {
					assert.ErrorContainsf(t, err, want, "baseline")
				}
			}
		})
	}
	// Pods that pull images need no rights at all.
	for _, pod := range pods(t, "testdata/golden/subscriptions.yaml") {
		if strings.Contains(pod, "nvidia-driver-prepull") {
			_, err := p.KubectlInput(pod, "create", "--dry-run=server", "-n", "restricted", "-f", "-")
			assert.NoErrorf(t, err, "%s", pod)
		}
	}
}

// pods returns the pods that the DaemonSets of a rendered chart would make, as JSON.
func pods(t *testing.T, path string) (found []string) {
	t.Helper()
	for _, set := range daemonSets(t, testfile.Read(t, path)) {
		pod := core.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
		pod.APIVersion, pod.Kind, pod.Name = "v1", "Pod", set.Name
		pod.Spec.ServiceAccountName = "default" // the only one that exists
		text := require.Value(json.Marshal(pod))(t)
		found = append(found, string(text))
	}
	if len(found) == 0 {
		t.Fatalf("no DaemonSet in %s", path)
	}
	return found
}

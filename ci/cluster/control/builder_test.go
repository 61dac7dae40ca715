package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/buildkit"
)

const (
	examples  = "../../../deploy/examples/"
	namespace = "driver-build"
	waitLimit = time.Minute
)

// start starts an API server that has the examples.
func start(t *testing.T) *control.Plane {
	t.Helper()
	p := control.Start(t, control.Config{Controllers: true})
	p.Kubectl("create", "namespace", namespace)
	p.Wait(waitLimit, "the service account of the namespace", func() error {
		_, err := p.TryKubectl("get", "serviceaccount", "default", "-n", namespace)
		return err
	})
	for _, name := range []string{"buildkitd.yaml", "build-job.yaml"} {
		p.Kubectl("apply", "--validate=strict", "-f", examples+name)
	}
	p.Wait(waitLimit, "the pod of the StatefulSet", func() error {
		_, err := p.TryKubectl("get", "pod", "buildkitd-0", "-n", namespace)
		return err
	})
	return p
}

// TestRights: the account of the example may reach the one pod, and nothing else.
func TestRights(t *testing.T) {
	p := start(t)
	account := p.ServiceAccount(namespace, "driver-build")
	for _, allowed := range [][]string{{"get", "pods/buildkitd-0"}, {"create", "pods/buildkitd-0", "--subresource=exec"}} {
		assert.NoErrorf(t, assert.Err(account.TryKubectl(append([]string{"auth", "can-i", "-n", namespace}, allowed...)...)), "%v", allowed)
	}
	for _, refused := range [][]string{
		{"create", "pods/other", "--subresource=exec"}, {"list", "pods"}, {"create", "pods"}, {"delete", "pods/buildkitd-0"}, {"get", "secrets"},
		{"get", "pods/buildkitd-0", "-n", "kube-system"}, {"get", "nodes"},
	} {
		if out, err := account.TryKubectl(append([]string{"auth", "can-i", "-n", namespace}, refused...)...); err == nil || !strings.HasPrefix(out, "no") {
			t.Errorf("%v: %s, %v", refused, out, err)
		}
	}
}

// TestWords: what the real kubectl says when it cannot reach a daemon, and what driver-build says to do.
func TestWords(t *testing.T) {
	p := start(t)
	t.Setenv("PATH", control.Bin(t)+":"+os.Getenv("PATH"))
	p.Kubectl("create", "--raw", "/api/v1/namespaces/"+namespace+"/pods", "-f", examplePod(t))
	account := p.ServiceAccount(namespace, "driver-build").Config
	wrong := edited(t, p.Config, "client-certificate-data", "token", "client-key-data", "nothing")
	none := edited(t, p.Config, "client-certificate-data", "nothing", "client-key-data", "nothing")
	for _, c := range []struct{ name, kubeconfig, address, says string }{
		{"no pod", p.Config, "kube-pod://gone?namespace=" + namespace, "(NotFound)"},
		{"no right in the namespace", account, "kube-pod://buildkitd-0?namespace=default", "(Forbidden)"},
		{"the two rights are enough", account, "kube-pod://buildkitd-0?namespace=" + namespace, "does not have a host assigned"},
		{"wrong token", wrong, "kube-pod://buildkitd-0?namespace=" + namespace, "exit status 1: error: You must be logged in to the server"},
		{"a question for a user", none, "kube-pod://buildkitd-0?namespace=" + namespace, "does not answer"},
		{"no server", edited(t, p.Config, "https://127.0.0.1:", "https://127.0.0.2:"), "kube-pod://buildkitd-0", "refused"},
		{"the pod has ended", p.Config, "kube-pod://ended?namespace=" + namespace, "completed pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.address, "ended") {
				p.With(t).Kubectl("patch", "pod", "ended", "-n", namespace, "--subresource=status", "-p", `{"status":{"phase":"Failed"}}`)
			}
			t.Setenv("KUBECONFIG", c.kubeconfig)
			t.Setenv("KUBECACHEDIR", t.TempDir())
			builder, err := buildkit.New(t.Context(), buildkit.Options{Address: c.address})
			if err == nil {
				require.NoError(t, builder.Close())
			}
			if !errors.Is(err, runner.ErrUnavailable) {
				t.Fatalf("%v", err)
			}
			t.Log(err)
			assert.Containsf(t, err.Error(), c.says, "what kubectl says")
			assert.Containsf(t, err.Error(), "try by hand whether this works and asks nothing: kubectl ", "what to do")
		})
	}
}

// examplePod writes a pod that no controller owns, so that it can end.
func examplePod(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ended"}, "spec": {"nodeName": "away", "containers": [{"name": "a", "image": "x"}]}}`), 0o600))
	return path
}

// edited returns a copy of a kubeconfig with replaced texts.
func edited(t *testing.T, kubeconfig string, pairs ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.NewReplacer(pairs...).Replace(string(require.Value(os.ReadFile(kubeconfig))(t)))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestNames: the names in the addresses of the page fit the example.
func TestNames(t *testing.T) {
	t.Parallel()
	text := string(require.Value(os.ReadFile(examples + "buildkitd.yaml"))(t))
	const address = "kube-pod://buildkitd-0?namespace=" + namespace
	require.NoError(t, buildkit.Check(t.Context(), address, buildkit.TLS{}))
	assert.Contains(t, text, address)
	assert.Contains(t, string(require.Value(os.ReadFile("../../../docs/build.md"))(t)), address)
}

package lint

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
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestCluster runs what the pages do in a cluster, in the order of the pages, with a real API server and
// controllers. The kubelet of its one node is simulated, so no driver runs: elsewhere.yaml names the tests with a
// node for commands that ask the driver.
func TestCluster(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true})
	for _, object := range []string{
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux"}}}`,
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0", "namespace": "default"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}`,
	} {
		p.Wait(time.Minute, "the API server takes "+object, func() error {
			_, err := p.KubectlInput(object, "apply", "-f", "-")
			return err
		})
	}
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(require.Value(filepath.Abs(root))(t), "deploy"), dir+"/deploy"))
	testcert.Authority("modules").Write(t, dir+"/cert.pem", dir+"/key.pem")
	s := &shell{t: t, clone: dir, env: append(os.Environ(), "PATH="+control.Bin(t)+":"+os.Getenv("PATH"), "KUBECONFIG="+p.Config, "HOME="+dir,
		"ORIGIN=registry.example.com", "HELM_NO_PLUGINS=1")}
	install := "kubectl -n nvidia-driver rollout status daemonset/nvidia-driver"
	for _, name := range Names {
		if name == "kernels" {
			values := File(testfile.Read(t, root+"/docs/"+name+".md"), "image: {repository: registry.example.com/gpu/driver}")
			testfile.Write(t, dir+"/values.yaml", values)
		}
		if name == "build" { // subscriptions
			s.in(dir, s.env, "helm upgrade nvidia-driver deploy/chart -n nvidia-driver --reuse-values --set image.tag=550.163.01-rhel9")
		}
		for _, c := range commands(t, name, byCluster) {
			s.in(dir, append(s.env, "POD="+pod(p, c)), substitute(c.Text))
			if strings.HasPrefix(c.Text, "kubectl debug ") {
				wantCopy(t, p)
			}
			if strings.HasPrefix(c.Text, "helm install nvidia-driver ") {
				install = substitute(c.Text) + " && " + install
			}
		}
		if name == "kernels" || name == "build" { // the next pages are about the release of the first one
			s.in(dir, s.env, "helm uninstall nvidia-driver -n nvidia-driver --wait && "+install)
		}
	}
	assert.Containsf(t, p.Kubectl("get", "pod", "-n", "nvidia-driver", "-o", "jsonpath={.items[*].spec.containers[0].image}"), "registry.example.com/gpu/driver:", "the driver pods' images after all pages")
}

// pod waits for the driver's pod, if a command is about it, and returns its name.
func pod(p *control.Plane, c Command) (name string) {
	if !strings.Contains(c.Text, "POD") {
		return ""
	}
	p.Wait(time.Minute, "a driver pod", func() error {
		if _, err := p.TryKubectl("rollout", "status", "-n", "nvidia-driver", "daemonset/nvidia-driver", "--timeout=30s"); err != nil {
			return err
		}
		out, err := p.TryKubectl("get", "pods", "-n", "nvidia-driver", "-l", "app.kubernetes.io/component=nvidia-driver", "-o", "jsonpath={.items[0].metadata.name}")
		if err == nil && out == "" {
			err = errors.New("there is none")
		}
		name = out
		return err
	})
	return name
}

// wantCopy: the copy of the driver's pod asks the same node, with the rights and volumes of the pod.
func wantCopy(t *testing.T, p *control.Plane) {
	t.Helper()
	got := p.Kubectl("get", "pod", "-n", "nvidia-driver", "preflight", "-o", "jsonpath={.spec.nodeName} {.spec.hostPID} {.metadata.labels} "+
		`{range .spec.containers[?(@.name=="nvidia-driver-ctr")]}{.command} {.args} {.securityContext.privileged} {.volumeMounts[*].name}{end}`)
	for _, want := range []string{`node-1 true  ["nvidia-driver","preflight"]`, " true ", "run-nvidia"} {
		assert.Contains(t, got, want)
	}
}

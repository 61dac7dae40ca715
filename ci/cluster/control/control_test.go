package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestMain(m *testing.M) {
	status := m.Run()
	if left := children(); status == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "still running after the tests: %s\n", strings.Join(left, "; "))
		status = 1
	}
	os.Exit(status)
}

// children returns the command lines of the processes that this process has started.
func children() []string {
	var lines []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		pids, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			line, err := os.ReadFile("/proc/" + pid + "/cmdline")
			if err == nil {
				lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
	return lines
}

func TestAPIServer(t *testing.T) {
	begin := time.Now()
	p := Start(t, Config{})
	t.Logf("etcd and the API server were ready after %s", time.Since(begin).Round(100*time.Millisecond))
	if got := p.Kubectl("version"); !strings.Contains(got, "Server Version: v1.36.") || !strings.Contains(got, "Client Version: v1.36.") {
		t.Errorf("kubectl version says:\n%s", got)
	}
	nobody := p.ServiceAccount("default", "nobody")
	if got, err := nobody.TryKubectl("get", "pods", "-A"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a service account without rights: got %q, %v; want Forbidden", got, err)
	}
	assert.Errorf(t, assert.Err(p.KubectlInput("{", "create", "-f", "-")), "half an object is accepted")
	if got := p.Helm("version", "--short"); !strings.HasPrefix(got, "v4.") {
		t.Errorf("helm version says %q", got)
	}
}

// TestAdmission checks that this plane refuses what real clusters refuse; otherwise tests on it would prove
// little.
func TestAdmission(t *testing.T) {
	p := Start(t, Config{Controllers: true})
	p.Kubectl("create", "namespace", "strict")
	p.Kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
	p.Wait(startLimit, "the service account of the namespace", func() error {
		_, err := p.TryKubectl("get", "serviceaccount", "default", "-n", "strict")
		return err
	})
	if _, err := p.TryKubectl("run", "x", "-n", "strict", "--image=x"); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("a pod against Pod Security: got %v", err)
	}
	p.Kubectl("run", "x", "--image=x")
	for _, name := range []string{"one", "two"} {
		require.Value(p.KubectlInput(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "`+name+`"}}`, "create", "-f", "-"))(t)
	}
	kubelet := p.As("system:node:one", "system:nodes", "system:authenticated")
	kubelet.Kubectl("label", "node", "one", "example.com/x=y")
	for _, tc := range []struct{ node, label, want string }{
		{"two", "example.com/x=y", "only its own Node object"},                           // the Node authorizer
		{"one", "node-restriction.kubernetes.io/x=y", "is not allowed to modify labels"}, // NodeRestriction
	} {
		if _, err := kubelet.TryKubectl("label", "node", tc.node, tc.label); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("the kubelet of node one labels %s with %s: got %v; want %q", tc.node, tc.label, err, tc.want)
		}
	}
}

// TestNodes rolls out a DaemonSet on three kwok nodes, which needs everything that Config can start.
func TestNodes(t *testing.T) {
	begin := time.Now()
	p := Start(t, Config{Controllers: true, Scheduler: true, KWOK: true})
	t.Logf("everything was ready after %s", time.Since(begin).Round(100*time.Millisecond))
	for n := range 3 {
		if _, err := p.KubectlInput(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-%d"}}`, n), "create", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	set := `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"x": "y"}},
"template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}}}`
	require.Value(p.KubectlInput(set, "apply", "-f", "-"))(t)
	p.Kubectl("rollout", "status", "daemonset/x", "--timeout=60s")
	if got := strings.Fields(p.Kubectl("get", "pods", "-o", "name")); len(got) != 3 {
		t.Errorf("pods: %q; want one for each of 3 nodes", got)
	}
}

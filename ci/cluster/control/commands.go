package control

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const (
	// five times the duration of building everything on two idle cores
	buildLimit   = 35 * time.Minute
	commandLimit = 15 * time.Minute // helm's waits for a roll-out have shorter limits of their own
)

// Gate skips a test unless DRIVER_E2E=1 asks for the real tier.
func Gate(t testing.TB) {
	t.Helper()
	tool.Real(t, "tests with a real Kubernetes build its programs from source, which takes minutes")
}

// Bin returns the folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
// kubelet, kubectl, helm and kwok. It builds programs that are missing or have another version,
// which takes minutes and may download Go modules. Without DRIVER_E2E=1 the test is skipped.
func Bin(t testing.TB) string {
	t.Helper()
	Gate(t)
	return require.Value(bin())(t)
}

var bin = sync.OnceValues(func() (string, error) {
	root, err := tool.Project()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	out, err := tool.Run(ctx, root, nil, filepath.Join(root, "ci/cluster/tools/build"))
	return strings.TrimSpace(out), err
})

// Client is one user of a cluster, by kubectl, helm and Go.
type Client struct {
	T        testing.TB
	Bin      string // folder of the programs
	Home     string // HOME of the user's commands
	Config   string // path of the user's kubeconfig
	Patience lab.Patience
}

// Kubectl runs kubectl and returns its stdout. If kubectl fails, the test ends.
func (c *Client) Kubectl(args ...string) string {
	c.T.Helper()
	return require.Value(c.TryKubectl(args...))(c.T)
}

// TryKubectl runs kubectl and returns its stdout; the error has its stderr.
func (c *Client) TryKubectl(args ...string) (string, error) { return c.KubectlInput("", args...) }

// KubectlInput is TryKubectl with data on stdin, for `kubectl apply -f -` and the like.
func (c *Client) KubectlInput(stdin string, args ...string) (string, error) {
	return c.run(stdin, "kubectl", args...)
}

// Helm runs helm and returns its stdout. If helm fails, the test ends.
func (c *Client) Helm(args ...string) string {
	c.T.Helper()
	return require.Value(c.TryHelm(args...))(c.T)
}

// TryHelm runs helm and returns its stdout; the error has its stderr.
func (c *Client) TryHelm(args ...string) (string, error) { return c.run("", "helm", args...) }

// Go returns clients without a limit on the number of requests.
func (c *Client) Go() (*kubernetes.Clientset, *rest.Config) {
	c.T.Helper()
	config := require.Value(clientcmd.BuildConfigFromFlags("", c.Config))(c.T)
	config.QPS = -1
	return require.Value(kubernetes.NewForConfig(config))(c.T), config
}

// Wait calls check until it returns nil, at most for limit. Then the test fails with the
// description of the condition and the last error.
func (c *Client) Wait(limit time.Duration, what string, check func() error) {
	c.T.Helper()
	c.Patience.Wait(c.T, limit, what, check)
}

// run gives a command caches and settings in a folder of its own, separate from those of the user
// who runs the tests. It does not use the test's context: the report of a failed test runs after
// that context has ended.
func (c *Client) run(stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, name), args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv(
			"PATH",
		), "HOME=" + c.Home, "TMPDIR=" + c.Home, "KUBECACHEDIR=" + filepath.Join(c.Home, "cache"),
		"KUBECTL_KUBERC=false", "HELM_NO_PLUGINS=1", "KUBECONFIG=" + c.Config,
	}
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf(
			"%s %s: %w: %s",
			name,
			strings.Join(args, " "),
			err,
			strings.TrimSpace(stderr.String()),
		)
	}
	return stdout.String(), nil
}

// Helm runs the helm of Bin for commands that need no cluster: lint, template, package. It returns
// stdout; the error has stderr.
func Helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	c := &Client{T: t, Bin: Bin(t), Home: t.TempDir(), Config: "/dev/null"}
	return c.run("", "helm", args...)
}

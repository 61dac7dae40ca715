package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Kubectl runs kubectl and returns its stdout. If kubectl fails, the test ends.
func (c *Cluster) Kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.TryKubectl(args...)
	require.NoError(c.t, err)
	return out
}

// TryKubectl runs kubectl and returns its stdout; the error has its stderr.
func (c *Cluster) TryKubectl(args ...string) (string, error) {
	return c.command("", "kubectl", args...)
}

// Apply applies manifests, YAML or JSON.
func (c *Cluster) Apply(manifests string) {
	c.t.Helper()
	if _, err := c.command(manifests, "kubectl", "apply", "-f", "-"); err != nil {
		c.t.Fatalf("%v\n%s", err, manifests)
	}
}

// Helm runs helm and returns its stdout. If helm fails, the test ends.
func (c *Cluster) Helm(args ...string) string {
	c.t.Helper()
	out, err := c.TryHelm(args...)
	require.NoError(c.t, err)
	return out
}

// TryHelm runs helm and returns its stdout; the error has its stderr.
func (c *Cluster) TryHelm(args ...string) (string, error) { return c.command("", "helm", args...) }

// command does not use the test's context: the report of a failed test runs after that context has ended.
func (c *Cluster) command(stdin, name string, args ...string) (string, error) {
	k := control.Command{Program: filepath.Join(c.bin(), name), Home: filepath.Dir(c.kubeconfig), Kubeconfig: c.kubeconfig}
	return k.Run(context.Background(), stdin, args...)
}

// Node runs a bash command as root on the node and returns its stdout and stderr. If the exit code is not 0,
// the test ends.
func (c *Cluster) Node(command string) string {
	c.t.Helper()
	return c.NodeFor(nodeLimit, command)
}

// NodeFor is Node with another limit.
func (c *Cluster) NodeFor(limit time.Duration, command string) string {
	c.t.Helper()
	out, err := c.TryNode(limit, command)
	if err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// TryNode is NodeFor for a command that may fail.
func (c *Cluster) TryNode(limit time.Duration, command string) (string, error) {
	r, err := c.machine.shell.run(command, c.patience.Limit(limit))
	if err == nil && r.code != 0 {
		err = fmt.Errorf("on the node, exit code %d: %s", r.code, command)
	}
	return r.text, err
}

// Upload copies a file of this machine to the node.
func (c *Cluster) Upload(path, to string, mode os.FileMode) {
	c.t.Helper()
	c.registry.mu.Lock()
	name := fmt.Sprintf("%d-%s", len(c.registry.files), filepath.Base(path))
	c.registry.files[name] = path
	c.registry.mu.Unlock()
	c.Node(fmt.Sprintf("mkdir -p %s && busybox wget -q -O %s http://%s/files/%s && chmod %o %s", filepath.Dir(to), to, guestRegistry, name, mode, to))
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/qemu"
	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Cluster is a running cluster of one node, as its administrator uses it. Its methods end the test when they
// fail, so call them in the test's own goroutine.
type Cluster struct {
	control.Client
	base    base
	machine *machine
	core    typed.CoreV1Interface
}

// New returns an unused cluster: the node is Ready, the images are pulled, there is no GPU. The cluster ends
// with the test, which on failure prints what happened in it. One test has one cluster, and one cluster runs
// at a time: tests of clusters are not parallel. Without DRIVER_E2E=1 the test is skipped; then anything that
// is missing is a failure.
func New(t testing.TB) *Cluster {
	t.Helper()
	lab.Gate(t)
	for program, debian := range map[string]string{"mmdebstrap": "mmdebstrap", "qemu-img": "qemu-utils", "cpio": "cpio"} {
		tool.Program(t, program, debian)
	}
	r := startRegistry(t)
	s := pulledState(t, r)
	begin := time.Now()
	c := restore(t, s, r, t.TempDir())
	t.Cleanup(c.reportFailure)
	t.Logf("cluster: restored in %s", time.Since(begin).Round(10*time.Millisecond))
	c.measure()
	return c
}

// connect makes the administrator's clients for this guest's port.
func (c *Cluster) connect() {
	c.T.Helper()
	c.Home, c.Bin = c.T.TempDir(), control.Bin(c.T)
	c.Config = filepath.Join(c.Home, "kubeconfig")
	text := testfile.Read(c.T, filepath.Join(c.base.dir, "kubeconfig"))
	testfile.Write(c.T, c.Config, strings.ReplaceAll(text, guestServer, fmt.Sprintf("https://127.0.0.1:%d", c.machine.api)))
	clients, _ := c.Go()
	c.core = clients.CoreV1()
}

// ImageRef returns the image of a driver, Older or Newer, by its name on the node.
func (c *Cluster) ImageRef(driver string) (repository, tag string) {
	return guestRegistry + "/" + driverName, driverTag(c.base, driver)
}

// PlugGPU plugs a GPU into the running node and waits until its kernel has found it.
func (c *Cluster) PlugGPU(model qemu.Model) {
	c.T.Helper()
	c.machine.plug(model)
	c.Wait(plugLimit, "the node's kernel has found the GPU", func() error {
		// Hotplug has its own events, which can be lost.
		if found := c.Node("grep -lx 0x10de /sys/bus/pci/devices/*/vendor || echo 1 >/sys/bus/pci/rescan"); found == "" {
			return errors.New("there is none")
		}
		return nil
	})
}

// waitNode waits for a node that is Ready, and for the objects that the cluster needs before a pod can be
// made. QEMU accepts connections before a program listens in the guest, so each attempt has a limit.
func (c *Cluster) waitNode(limit time.Duration) {
	c.T.Helper()
	c.Wait(limit, "the node is Ready, and service accounts work", func() error {
		select {
		case <-c.machine.Done:
			c.T.Fatalf("QEMU ended: %v %s", c.machine.Err, c.machine.Said.String())
		default:
		}
		ctx, cancel := context.WithTimeout(c.T.Context(), requestLimit)
		defer cancel()
		n, err := c.core.Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := false
		for _, condition := range n.Status.Conditions {
			ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}
		if !ready || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("conditions %v, taints %v", n.Status.Conditions, n.Spec.Taints)
		}
		_, err = c.core.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		_, err2 := c.core.ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return errors.Join(err, err2)
	})
}

// measure finds out how busy this machine is: it times a checksum on the node.
func (c *Cluster) measure() {
	begin := time.Now()
	require.Value(c.tryNode(restoreLimit, "head -c 16M /dev/zero | sha256sum"))(c.T)
	c.Patience = max(c.Patience, lab.Measure(time.Since(begin), quietChecksum))
	c.machine.agent.Patience = c.Patience
	c.T.Logf("cluster: limits are multiplied by %.1f", max(1, c.Patience))
}

// Apply applies manifests, YAML or JSON.
func (c *Cluster) Apply(manifests string) {
	c.T.Helper()
	require.Value(c.KubectlInput(manifests, "apply", "-f", "-"))(c.T)
}

// Node runs a bash command as root on the node and returns its stdout and stderr. If the exit code is not 0,
// the test ends.
func (c *Cluster) Node(command string) string {
	c.T.Helper()
	return require.Value(c.tryNode(nodeLimit, command))(c.T)
}

func (c *Cluster) tryNode(limit time.Duration, command string) (string, error) {
	r, err := c.machine.agent.Run(c.T, wire.Request{Args: []string{"/bin/bash", "-c", command}}, limit)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("on the node: %s", r)
	}
	return r.Output, err
}

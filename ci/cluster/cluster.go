package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/testkit/require"

	"github.com/driver-container/driver-container/ci/lab"
)

// Cluster is a running cluster of one node. Its methods end the test when they fail, so call them in the
// test's own goroutine.
type Cluster struct {
	t          testing.TB
	base       base
	registry   *registry
	machine    *machine
	kubeconfig string
	api        *api
	gpus       int
	watches    []*StateTable
	patience   lab.Patience
}

// New returns an unused cluster: the node is Ready, the images are pulled, there is no GPU. The cluster ends
// with the test, which on failure prints what happened in it. One test has one cluster, and one cluster runs
// at a time: tests of clusters are not parallel.
func New(t testing.TB) *Cluster {
	t.Helper()
	Gate(t)
	r := startRegistry(t)
	s, _ := pulledState(t, r)
	begin := time.Now()
	c := restore(t, s, r, t.TempDir())
	t.Cleanup(c.reportFailure)
	t.Logf("cluster: restored in %s", time.Since(begin).Round(10*time.Millisecond))
	c.measure()
	return c
}

// ImageRef returns the image of a driver, Older or Newer, by its name on the node.
func (c *Cluster) ImageRef(driver string) (repository, tag string) {
	return guestRegistry + "/" + driverName, driverTag(c.base, driver)
}

// PlugGPU plugs a GPU into the running node and waits until its kernel has found it.
func (c *Cluster) PlugGPU(t testing.TB, model fakegpu.Model) {
	t.Helper()
	const firstSlot = 9
	c.machine.plug(model, firstSlot+c.gpus)
	c.gpus++
	begin := time.Now()
	for n := 0; ; n++ {
		found := strings.Count(c.Node("grep -lx 0x10de /sys/bus/pci/devices/*/vendor || true"), "\n")
		switch {
		case found == c.gpus:
			t.Logf("cluster: GPU %s is there after %s", model.Name, time.Since(begin).Round(10*time.Millisecond))
			return
		case time.Since(begin) > c.patience.Limit(plugLimit):
			t.Fatalf("the node's kernel has %d GPUs, not %d, after %s", found, c.gpus, plugLimit)
		case n == 5: // hotplug has its own events, which can be lost
			c.Node("echo 1 >/sys/bus/pci/rescan")
		}
		<-time.After(pause)
	}
}

// AdvertiseGPUs makes the node offer nvidia.com/gpu, as a device plugin would.
func (c *Cluster) AdvertiseGPUs(n int) {
	c.t.Helper()
	c.Kubectl("patch", "node", NodeName, "--subresource=status", "--type=json",
		"-p", fmt.Sprintf(`[{"op":"add","path":"/status/capacity/nvidia.com~1gpu","value":"%d"}]`, n))
	c.Wait(time.Minute, "the node offers GPUs", func() error {
		var node corev1.Node
		err := c.api.get("/api/v1/nodes/"+NodeName, &node)
		if q := node.Status.Allocatable["nvidia.com/gpu"]; err == nil && q.Value() != int64(n) {
			err = fmt.Errorf("it offers %s", q.String())
		}
		return err
	})
}

// Reboot resets the node as power loss does, except for etcd, whose data is synced to the disk first, and
// waits until the node is Ready again. GPUs stay plugged in; the node no longer advertises GPUs.
func (c *Cluster) Reboot() {
	c.t.Helper()
	boot := "cat /proc/sys/kernel/random/boot_id"
	before := c.Node(boot)
	for _, w := range c.watches {
		w.collect()
	}
	c.Node("systemctl stop kube-apiserver kube-controller-manager kube-scheduler etcd && sync")
	require.NoError(c.t, c.machine.monitor.do("system_reset", nil, nil))
	begin := time.Now()
	c.api.client.CloseIdleConnections()
	c.Wait(bootLimit, "the shell on the node answers after the reset", func() error {
		r, err := c.machine.shell.run(boot, 5*time.Second)
		if err == nil && (r.code != 0 || r.text == before) {
			err = fmt.Errorf("%q", r.text)
		}
		return err
	})
	for _, w := range c.watches {
		w.launch()
	}
	c.waitNode(bootLimit)
	c.t.Logf("cluster: reboot to Ready took %s", time.Since(begin).Round(time.Second))
}

// waitNode waits for a node that is Ready, and for the objects that the cluster needs before a pod can be
// made.
func (c *Cluster) waitNode(limit time.Duration) {
	c.t.Helper()
	c.waitAPI(limit)
	c.Wait(limit, "the node is Ready", func() error {
		var n corev1.Node
		if err := c.api.get("/api/v1/nodes/"+NodeName, &n); err != nil {
			return err
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) ||
			len(n.Spec.Taints) > 0 {
			return fmt.Errorf("conditions %v, taints %v", n.Status.Conditions, n.Spec.Taints)
		}
		return nil
	})
	c.Wait(limit, "service accounts work", func() error {
		return errors.Join(c.api.get("/api/v1/namespaces/default/serviceaccounts/default", nil), c.api.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", nil))
	})
}

// waitAPI waits for the API server. QEMU accepts connections before a program listens in the guest, so each
// attempt has a limit.
func (c *Cluster) waitAPI(limit time.Duration) {
	c.t.Helper()
	c.Wait(limit, "the API server is ready", func() error {
		select {
		case <-c.machine.Done:
			c.t.Fatalf("QEMU ended: %v %s", c.machine.Err, c.machine.Said.String())
		default:
		}
		return c.api.getFor(3*time.Second, "/readyz", nil)
	})
}

// Wait calls check until it returns nil, at most for limit. At the limit it measures how busy the machine is
// now, and goes on if the machine has become slower. Then the test fails with the description of the
// condition and the last error.
func (c *Cluster) Wait(limit time.Duration, what string, check func() error) {
	c.t.Helper()
	before := c.patience
	err := before.Poll(limit, check)
	if err != nil {
		if c.measure(); c.patience > before {
			err = c.patience.Poll(limit, check)
		}
	}
	if err != nil {
		c.t.Fatalf("%s: not within %s: %v", what, c.patience.Limit(limit), err)
	}
}

// measure finds out how busy this machine is: it times a checksum on the node. The result stays at its
// highest value.
func (c *Cluster) measure() {
	begin := time.Now()
	_, err := c.machine.shell.run("head -c 16M /dev/zero | sha256sum", restoreLimit)
	took := time.Since(begin)
	if err == nil {
		c.patience = max(c.patience, lab.Measure(took, quietChecksum))
	}
	c.t.Logf("cluster: a checksum on the node took %s, limits are multiplied by %.1f", took.Round(10*time.Millisecond), max(1, c.patience))
}

// bin returns the folder of the programs.
func (c *Cluster) bin() string { return control.Bin(c.t) }

// background returns a context for requests after the test's own context has ended.
func background(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

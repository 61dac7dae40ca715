package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// Cluster is a running cluster of one node, as its administrator uses it. Its methods end the test
// when they fail, so call them in the test's own goroutine.
type Cluster struct {
	control.Client
	// Registry is this machine's address of the registry that the node calls guestRegistry.
	Registry string
	base     base
	guest    *lab.Guest
	core     typed.CoreV1Interface
}

// New boots an unused cluster: the node is Ready, has a GPU, and the images are pulled. The cluster
// ends with the test, which on failure prints what happened in it. Without DRIVER_E2E=1 the test is
// skipped; then anything that is missing is a failure.
func New(t testing.TB) *Cluster {
	t.Helper()
	lab.Gate(t)
	for program, debian := range map[string]string{"mmdebstrap": "mmdebstrap", "cpio": "cpio"} {
		tool.Program(t, program, debian)
	}
	c := &Cluster{
		Client: control.Client{T: t, Home: t.TempDir(), Bin: control.Bin(t)},
		base:   makeBase(t),
	}
	registry := startRegistry(t)
	list := images(t, c.base, registry)
	begin := time.Now()
	c.Registry = fmt.Sprintf("127.0.0.1:%d", registry)
	api := c.start(registry)
	t.Cleanup(c.reportFailure)
	c.connect(api)
	c.Wait(bootLimit, "the node is Ready, and service accounts work", c.ready)
	t.Logf(
		"cluster: from the start of QEMU to the node being Ready: %s",
		time.Since(begin).Round(time.Second),
	)
	for _, ref := range list {
		begin := time.Now()
		c.run(
			pullLimit,
			"ctr -n k8s.io images pull --hosts-dir /etc/containerd/certs.d "+guestRegistry+"/"+ref,
		)
		t.Logf("cluster: pulled %s in %s", ref, time.Since(begin).Round(100*time.Millisecond))
	}
	return c
}

// start boots the guest and returns the address of this machine's loopback that is its API server's.
// registry is the port that the guest reaches as guestRegistry.
func (c *Cluster) start(registry int) (api string) {
	c.T.Helper()
	api = tool.UnusedAddress(c.T)
	c.guest = lab.Start(c.T, lab.Config{
		Kernel: c.base.kernel, GPUs: []gpu.Model{gpu.T4}, MemoryMB: 2048,
		CommandLine: "random.trust_cpu=on net.ifnames=0 audit=0 nokaslr systemd.show_status=0",
		Quiet:       quietBoot,
		System: &guest.System{
			Initramfs: filepath.Join(c.base.dir, "initramfs"),
			Disk:      filepath.Join(c.base.dir, "root.ext4"),
			Arguments: []string{
				"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:%s-:443,guestfwd=tcp:%s-cmd:busybox nc 127.0.0.1 %d",
					api, guestRegistry, registry),
				"-device", "virtio-net-pci,netdev=net,addr=0x1a,romfile=", "-device", "virtio-rng-pci,addr=0x1b",
			},
		},
	})
	c.Patience = lab.Measure(c.guest.Limit(time.Second), time.Second)
	return api
}

// connect makes the administrator's clients for this guest's address.
func (c *Cluster) connect(api string) {
	c.T.Helper()
	c.Config = filepath.Join(c.Home, "kubeconfig")
	text := testfile.Read(c.T, filepath.Join(c.base.dir, "kubeconfig"))
	testfile.Write(
		c.T,
		c.Config,
		strings.ReplaceAll(text, guestServer, "https://"+api),
	)
	clients, _ := c.Go()
	c.core = clients.CoreV1()
}

// ImageRef returns the image of a driver, Older or Newer, by its name on the node.
func (c *Cluster) ImageRef(driver string) (repository, tag string) {
	return guestRegistry + "/" + driverName, driverTag(c.base, driver)
}

// ModulesRef returns the name on the node of the image with the modules of Newer.
func (c *Cluster) ModulesRef() string {
	return guestRegistry + "/" + driverName + ":" + modulesTag(c.base)
}

// ready returns nil when the node is Ready, without taints, and there are the objects that the
// cluster needs before a pod can be made. QEMU accepts connections before a program listens in the
// guest, so each attempt has a limit.
func (c *Cluster) ready() error {
	limit := fmt.Sprint("--request-timeout=", requestLimit)
	const status = `jsonpath={.status.conditions[?(@.type=="Ready")].status}{.spec.taints}`
	said, err := c.TryKubectl("get", "node", NodeName, "-o", status, limit)
	if err != nil {
		return err
	}
	if said != "True" {
		return fmt.Errorf("the node's condition Ready and its taints: %s", said)
	}
	_, err = c.TryKubectl("get", "-n", "default", "serviceaccount/default", "configmap/kube-root-ca.crt", limit)
	return err
}

// Apply applies manifests, YAML or JSON.
func (c *Cluster) Apply(manifests string) {
	c.T.Helper()
	require.Value(c.KubectlInput(manifests, "apply", "-f", "-"))(c.T)
}

// Node runs a shell command as root on the node and returns its stdout and stderr. If the exit code
// is not 0, the test ends.
func (c *Cluster) Node(command string) string {
	c.T.Helper()
	return c.run(nodeLimit, command)
}

func (c *Cluster) run(limit time.Duration, command string) string {
	c.T.Helper()
	r := c.guest.RunFor(limit, "sh", "-c", command)
	if r.Code != 0 {
		c.T.Fatalf("on the node: %s", r)
	}
	return r.Output
}

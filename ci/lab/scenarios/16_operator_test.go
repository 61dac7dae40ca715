package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/peers/conformance"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

const (
	validations = "/run/nvidia/validations/"
	digestFile  = "/run/nvidia/nvidia-driver.state"
	pidFile     = "/run/nvidia/nvidia-driver.pid"
	probeScript = "/usr/local/bin/startup-probe.sh"
	digest      = "2557654321"
)

// operated returns the pod as the GPU Operator 26.7 makes it of its default NVIDIADriver with GPUDirect Storage: the
// volumes of its manifest in their order, the command, the variables, the probe from a ConfigMap. The volume over
// /lib/firmware is a folder that the kubelet makes in the later driver root. The host's modules are there with
// precompiled drivers of SLES and SL Micro only. The operator's pod does not have the lab's two variables and the
// compiled modules: to compile them in a guest takes half an hour.
func operated(g *lab.Guest, digest string) lab.Container {
	g.Write("/configmap/startup-probe.sh", conformance.StartupProbe, 0o755)
	pod := driver("535", "NVIDIA_VISIBLE_DEVICES=void", "NODE_NAME=gpu-node-1", "NODE_IP=10.0.0.7", "DRIVER_CONFIG_DIGEST="+digest,
		"KERNEL_MODULE_TYPE=auto", "GDS_ENABLED=true")
	pod.Command, pod.Args = []string{"nvidia-driver"}, []string{"init"}
	pod.Mounts = []guest.Mount{
		{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
		{Host: "/run/nvidia-fabricmanager", Guest: "/run/nvidia-fabricmanager"},
		{Host: "/run/nvidia-topologyd", Guest: "/run/nvidia-topologyd"},
		{Host: "/var/log", Guest: "/var/log"},
		{Host: "/dev/log", Guest: "/dev/log"},
		{Host: "/etc/os-release", Guest: "/host-etc/os-release", ReadOnly: true, File: true},
		{Host: "/run/mellanox/drivers/usr/src", Guest: "/run/mellanox/drivers/usr/src"},
		{Host: "/run/mellanox/drivers", Guest: "/run/mellanox/drivers"},
		{Host: "/sys/module/firmware_class/parameters/path", Guest: "/sys/module/firmware_class/parameters/path", File: true},
		{Host: "/sys/devices/system", Guest: "/sys/devices/system"},
		{Host: "/run/nvidia/driver/lib/firmware", Guest: "/lib/firmware"},
		{Host: "/configmap/startup-probe.sh", Guest: probeScript, ReadOnly: true, File: true},
		{Host: "/lib/modules", Guest: "/run/host/lib/modules", ReadOnly: true},
		{Host: modulesDir, Guest: modulesDir},
	}
	return pod
}

// probe runs the operator's startup probe. The lab's GPU never initialises, so the real nvidia-smi ends with
// 6, "No devices were found"; with one that ends with 0 before it in the PATH, the rest of the probe runs
// too.
func probe(p *lab.Process, smi bool) guest.Result {
	script := "sh " + probeScript
	if smi {
		script = "mkdir -p /tmp/bin && ln -sf /bin/true /tmp/bin/nvidia-smi && PATH=/tmp/bin:$PATH " + script
	}
	return p.Exec("sh", "-c", script)
}

// What the GPU Operator does with a driver's image, from the start to the end of its pod: it gives command,
// environment, firmware volume, startup probe and preStop, and finds its markers, its digest and the kernel's
// firmware. Another container that has only /run/nvidia waits for the driver with wait-ready.
func Test16Operator(t *testing.T) {
	lab.Gate(t)
	dir := t.TempDir()
	require.NoError(t, tool.Build(t.Context(), dir, "ci/peers/conformance/drivermanager"))
	g := stage{products: map[string]product{"535": d535}, cached: []product{d535},
		edit: func(c *lab.Config) { c.Disks["/manager"] = lab.TreeDisk(t, dir) }}.start(t)
	before := look(g)
	waiting := lab.Container{Image: "535", Name: "wait", Mounts: []guest.Mount{{Host: "/run/nvidia", Guest: "/run/nvidia", ReadOnly: true}}}
	waiting.Command = []string{"nvidia-driver", "wait-ready", "--timeout", "1s"}
	contains(t, ends(t, g.Start(waiting), 15, time.Minute), `no driver container has run on this node`)
	waiting.Command = []string{"nvidia-driver", "wait-ready"}
	dependant := g.Start(waiting)
	dependant.WaitLine(`waiting: `, time.Minute)

	driverManager(t, g, "preflight_check", digest, 0)
	contains(t, driverManager(t, g, "uninstall_driver", digest, 0), `no driver is loaded`)
	g.Write(validations+".driver-ctr-ready", "GDS_ENABLED: true\n", 0) // of an earlier driver: v0.12 leaves it
	p := g.Start(operated(g, digest))
	p.WaitLine(logtest.PhaseFinished+"lock", time.Minute)
	assert.Equalf(t, false, g.Exists(validations+".driver-ctr-ready"), "the marker of an earlier driver is there while this one starts")
	assert.Equalf(t, "NotReady\n", g.Read(daemonStatus), "while it starts the operator's marker says")
	if r := probe(p, true); r.Code == 0 {
		t.Errorf("the startup probe passes before the driver is up: %s", r)
	}
	p.WaitLine(logtest.Ready, 3*time.Minute)
	ends(t, dependant, 0, 30*time.Second)
	if g.Read(daemonStatus) != "Ready\n" || strings.TrimSpace(g.Read(digestFile)) != digest {
		t.Errorf("markers: daemons %q, digest %q", g.Read(daemonStatus), g.Read(digestFile))
	}
	contains(t, g.Read(pidFile), `^\d+\n?$`)
	firmware(t, g)
	if r := probe(p, false); r.Code != 1 || !strings.Contains(r.Output, "No devices were found") {
		t.Errorf("the startup probe does not get to the real nvidia-smi: %s", r)
	}
	if r := probe(p, true); r.Code != 0 {
		t.Errorf("startup probe: %s", r)
	}
	assert.Equalf(t, "GDRCOPY_ENABLED: false\nGDS_ENABLED: true\nGPU_DIRECT_RDMA_ENABLED: false\n", g.Read(validations+".driver-ctr-ready"), "the startup probe's marker")
	if r := p.Exec("sh", "-c", "chroot /run/nvidia/driver modprobe -n nvidia-peermem"); r.Code != 0 {
		t.Errorf("the sidecar of GPUDirect RDMA: %s", r)
	}

	if r := p.Exec("/bin/sh", "-c", conformance.PreStop); r.Code != 0 {
		t.Errorf("preStop: %s", r)
	}
	stops(t, p, 0)
	assert.Equalf(t, before, look(g).withoutLock(), "the node")
}

// firmware requires that the kernel can find the driver's firmware.
func firmware(t *testing.T, g *lab.Guest) {
	t.Helper()
	path := g.Read("/sys/module/firmware_class/parameters/path")
	if strings.TrimSuffix(path, "\n") != "/run/nvidia/driver/lib/firmware" { // sysfs adds one newline
		t.Fatalf("the kernel looks for firmware in %q", path)
	}
	dir := strings.TrimSpace(path) + "/nvidia/" + d535.driver
	assert.Equalf(t, "2", strings.TrimSpace(g.Sh("find -L "+dir+" -name 'gsp*.bin' -size +1000k | wc -l")), "GSP files in %s", dir)
}

// driverManager runs the init container of the operator's pod with a verb and the digest of that pod, and
// requires an exit code.
func driverManager(t *testing.T, g *lab.Guest, verb, digest string, code int) string {
	t.Helper()
	p := g.Start(lab.Container{
		Image: "535", Name: "k8s-driver-manager", Command: []string{"driver-manager"}, Args: []string{verb},
		Env: []string{"NODE_NAME=gpu-node-1", "NVIDIA_VISIBLE_DEVICES=void", "ENABLE_GPU_POD_EVICTION=true", "ENABLE_AUTO_DRAIN=false",
			"DRAIN_USE_FORCE=false", "DRAIN_TIMEOUT_SECONDS=0s", "OPERATOR_NAMESPACE=gpu-operator", "DRIVER_CONFIG_DIGEST=" + digest},
		Mounts: []guest.Mount{
			{Host: "/manager/drivermanager", Guest: "/usr/local/bin/driver-manager", ReadOnly: true, File: true},
			{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
			{Host: "/", Guest: "/host", ReadOnly: true},
			{Host: "/sys", Guest: "/sys"},
			{Host: "/run/mellanox/drivers", Guest: "/run/mellanox/drivers"},
		},
	})
	defer p.Kill()
	return ends(t, p, code, time.Minute)
}

const daemonStatus = "/run/nvidia/validations/.driver-daemons-status"

package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
)

// busyboxImage makes a small image quickly.
func busyboxImage(t *testing.T) Image {
	t.Helper()
	busybox := require.Value(exec.LookPath("busybox"))(t)
	root := t.TempDir()
	for _, dir := range []string{"bin", "dev", "proc", "sys", "tmp", "run"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	tool.Must(t, "cp", busybox, filepath.Join(root, "bin/busybox"))
	for applet := range strings.Lines(tool.Must(t, busybox, "--list")) {
		if applet = strings.TrimSpace(applet); applet != "busybox" {
			require.NoError(t, os.Symlink("busybox", filepath.Join(root, "bin", applet)))
		}
	}
	require.NoError(t, errors.Join(os.Mkdir(filepath.Join(root, "var"), 0o755), os.Symlink("/run", filepath.Join(root, "var/run"))))
	return Image{Disk: TreeDisk(t, root), Env: []string{"PATH=/bin"}, Command: []string{"sh", "-c"}}
}

// TestLab boots a guest and tries everything that scenarios use. DRIVER_LAB_MODULES may name a folder with
// compiled modules of the driver for this kernel; then the test loads them.
func TestLab(t *testing.T) {
	Gate(t)
	config := Config{
		Kernel: Kernel(t, "debian12"), GPUs: []fakegpu.Model{fakegpu.T4, fakegpu.A100}, Images: map[string]Image{"busybox": busyboxImage(t)},
		Network: true, CommandLine: "module.sig_enforce=0",
	}
	if dir := os.Getenv("DRIVER_LAB_MODULES"); dir != "" {
		config.Disks = map[string]string{"/mods": TreeDisk(t, dir)}
	}
	g := Start(t, config)
	steps := []struct {
		name string
		do   func(t *testing.T, g *Guest)
	}{
		{"host", tryHost}, {"container", tryContainer}, {"signals", trySignals}, {"propagation", tryPropagation}, {"limits", tryLimits},
		{"modules", tryModules},
	}
	for _, s := range steps {
		begin := time.Now()
		s.do(t, g)
		t.Logf("%s: %s", s.name, time.Since(begin).Round(10*time.Millisecond))
	}
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	assert.Equalf(t, want, got, "%s", what)
}

func tryHost(t *testing.T, g *Guest) {
	equal(t, "kernel", g.Sh("uname -r"), g.config.Kernel.Release)
	equal(t, "GPUs", g.Sh("cd /sys/bus/pci/devices && cat 0000:00:05.0/vendor 0000:00:05.0/device 0000:00:06.0/device"), "0x10de\n0x1eb8\n0x20b0")
	equal(t, "headers", g.Sh("cat /lib/modules/*/build/include/generated/utsrelease.h"), `#define UTS_RELEASE "`+g.config.Kernel.Release+`"`)
	equal(t, "network", g.Sh("ping -c 1 -W 5 10.0.2.2 >/dev/null && echo up"), "up")
	if r := g.Run("sh", "-c", "echo out; echo err >&2; exit 7"); r.Code != 7 || r.Output != "out\nerr\n" {
		t.Error(r)
	}
	g.Write("/run/x/y", "text", 0o600)
	equal(t, "file", g.Read("/run/x/y"), "text")
	equal(t, "listing", strings.Join(g.List("/run/x"), "; "), "drwxr-xr-x /run/x; -rw------- /run/x/y 4")
	g.Remove("/run/x")
	if g.Exists("/run/x") || !g.Exists("/dev/null") {
		t.Error("Exists is wrong")
	}
	for _, m := range g.Mounts() {
		if m.Point == "/run" && (!m.Shared || m.Type != "tmpfs") {
			t.Errorf("/run: %+v", m)
		}
	}
	holder := g.Hold("/dev/null")
	equal(t, "holder's file", g.Sh("readlink /proc/"+strconv.Itoa(holder.PID)+"/fd/3"), "/dev/null")
	holder.Kill()
	if code, _ := holder.Wait(time.Second); code != 137 {
		t.Errorf("killed: %d", code)
	}
}

func tryContainer(t *testing.T, g *Guest) {
	c := DriverPod("busybox", "COLOUR=red").With(Mount{Host: "/run/elsewhere", Guest: "/var/run/below"})
	c.Args = []string{"echo $COLOUR; cat /proc/self/cgroup; echo bye >/dev/termination-log; ls -l /dev/kmsg; cat /host-etc/os-release; touch /written /run/below/file"}
	p := g.Start(c)
	code, out := p.Wait(30 * time.Second)
	for _, want := range []string{"red\n", "kubepods-burstable-pod", "cri-containerd-" + p.ID + ".scope", "/dev/kmsg", "Debian GNU/Linux 12"} {
		assert.Containsf(t, out, want, "exit code %d, no", code)
	}
	equal(t, "a mount below a link of the image", g.Sh("ls /run/elsewhere"), "file")
	equal(t, "termination log", p.Termination(), "bye\n")
	equal(t, "upper layer", g.Sh("ls -d "+snapshots+p.ID+"/fs/written"), snapshots+p.ID+"/fs/written")
	p.Kill()
	if g.Exists(snapshots + p.ID) {
		t.Error("the upper layer is still there")
	}
}

// snapshots is where the agent keeps upper layers, as containerd does.
const snapshots = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/"

func trySignals(t *testing.T, g *Guest) {
	c := DriverPod("busybox")
	c.Args = []string{"trap 'echo got it; exit 5' TERM; sleep 1000 & echo ready; while :; do wait; done"}
	p := g.Start(c)
	p.WaitLine("^ready$", 30*time.Second)
	if r := p.Exec("sh", "-c", "cat /proc/self/cgroup; hostname"); r.Code != 0 || !strings.Contains(r.Output, p.ID) || !strings.Contains(r.Output, "nvidia-driver-ctr") {
		t.Error(r)
	}
	inside := p.Hold("/dev/zero")
	if code, out := p.Stop(30 * time.Second); code != 5 || !strings.HasSuffix(out, "got it\n") {
		t.Errorf("exit code %d: %s", code, out)
	}
	// All processes in the container end with its first process.
	if code, _ := inside.Wait(30 * time.Second); code != 137 {
		t.Errorf("a process of its: %d", code)
	}
	assert.Equalf(t, "", g.Sh("find /sys/fs/cgroup/kubepods.slice -name '*.scope'"), "groups that are left")
	lonely := g.Start(Container{Image: "busybox", PrivatePID: true, HostDev: true, Args: []string{"echo $$; [ -c /dev/vda ] || ls -l /dev/vda; ls /proc"}})
	if code, out := lonely.Wait(30 * time.Second); code != 0 || !strings.HasPrefix(out, "1\n") {
		t.Errorf("PID namespace: %d %s", code, out)
	}
	lonely.Kill()
}

// tryPropagation does what NVIDIA's container does: it binds its own root below /run/nvidia. The bind
// outlives the container.
func tryPropagation(t *testing.T, g *Guest) {
	before := g.Mounts()
	c := DriverPod("busybox")
	c.Args = []string{"mkdir -p /run/nvidia/driver && mount --rbind / /run/nvidia/driver && echo mounted; exec sleep 1000"}
	p := g.Start(c)
	p.WaitLine("^mounted$", 30*time.Second)
	if !g.Exists("/run/nvidia/driver/bin/busybox") {
		t.Error("the host does not see what the container mounted")
	}
	p.Signal(syscall.SIGKILL)
	if code, _ := p.Wait(30 * time.Second); code != 137 {
		t.Errorf("exit code %d", code)
	}
	if !g.Exists("/run/nvidia/driver/bin/busybox") {
		t.Error("the mount did not survive the container")
	}
	p.Kill()
	assert.Containsf(t, g.Run("sh", "-c", "echo /run/nvidia/driver/*").Output, "*", "the mount is not stale after the container was removed")
	if len(g.MountsBelow("/run/nvidia/driver")) == 0 {
		t.Error("the mount is gone")
	}
	g.Sh("umount -l /run/nvidia/driver")
	if after := g.Mounts(); len(after) != len(before) {
		t.Errorf("mounts before: %+v\nand after: %+v", before, after)
	}
}

func tryLimits(t *testing.T, g *Guest) {
	c := DriverPod("busybox")
	c.UpperMB, c.MemoryMB, c.CPUs = 4, 64, 0.5
	c.Args = []string{"d=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); cat $d/memory.max $d/cpu.max; dd if=/dev/zero of=/big bs=1M count=8; tail -c 200m /dev/zero; echo survived $?"}
	p := g.Start(c)
	code, out := p.Wait(60 * time.Second)
	if !strings.Contains(out, "67108864\n50000 100000\n") || !strings.Contains(out, "No space left on device") || strings.Contains(out, "survived 0") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.Kill()
	if left := slices.DeleteFunc(g.Mounts(), func(m MountPoint) bool { return !strings.HasPrefix(m.Point, snapshots) }); len(left) > 0 {
		t.Errorf("left over: %+v", left)
	}
}

// tryModules loads the real driver for two fake GPUs.
func tryModules(t *testing.T, g *Guest) {
	if g.config.Disks["/mods"] == "" {
		t.Log("modules: not tried, because DRIVER_LAB_MODULES names no folder with them")
		return
	}
	for _, m := range []string{"drm", "drm_kms_helper", "video", "ipmi_msghandler"} {
		g.Module(m)
	}
	for _, m := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset"} {
		if r := g.Run("insmod", "/mods/"+m+".ko"); r.Code != 0 {
			t.Fatalf("%s\n%s", r, tail(g.Dmesg()))
		}
	}
	equal(t, "modules", strings.Join(g.Driver(), " "), "nvidia nvidia_modeset nvidia_uvm")
	equal(t, "GPUs of the driver", g.Sh("ls /proc/driver/nvidia/gpus | tr '\n' ' '"), "0000:00:05.0 0000:00:06.0 ")
	g.Sh("rmmod nvidia_modeset && rmmod nvidia_uvm && rmmod nvidia")
}

// TestOtherKernel tests the differences: a kernel of another series, a host without headers, GPUs that are
// bound to another driver.
func TestOtherKernel(t *testing.T) {
	Gate(t)
	g := Start(t, Config{Kernel: Kernel(t, "debian11"), GPUs: []fakegpu.Model{fakegpu.K80}, Images: map[string]Image{"busybox": busyboxImage(t)}, NoHeaders: true, PCIStub: true})
	equal(t, "kernel", g.Sh("uname -r"), "5.10.0-32-amd64")
	equal(t, "driver of the GPU", g.Sh("basename $(readlink /sys/bus/pci/devices/0000:00:05.0/driver)"), "pci-stub")
	equal(t, "headers", g.Sh("ls /usr/src; ls /lib/modules/*/build 2>/dev/null || echo none"), "none")
	c := DriverPod("busybox")
	c.Args = []string{"sleep 1000 & sleep 1000 & echo ready; wait"}
	p := g.Start(c)
	p.WaitLine("ready", 30*time.Second)
	p.Kill()
	equal(t, "processes that are left", g.Sh("pidof sleep || echo none"), "none")
}

// TestHangs: a guest that hangs while it boots is started again.
func TestHangs(t *testing.T) {
	Gate(t)
	g := startWithin(t, Config{Kernel: Kernel(t, "debian12"), MemoryMB: 512, CPUs: 1}, 300*time.Millisecond)
	equal(t, "kernel", g.Sh("uname -r"), g.config.Kernel.Release)
}

// TestGuestDies: all waits return an error long before their limit.
func TestGuestDies(t *testing.T) {
	Gate(t)
	config := Config{Kernel: Kernel(t, "debian12"), MemoryMB: 512, CPUs: 1, DiskMB: 8192}
	begin := time.Now()
	m := startMachine(t, &config)
	c := newClient(m.port)
	select {
	case <-c.ready:
	case <-time.After(bootLimit):
		t.Fatal("no agent")
	}
	c.patience = Measure(time.Since(begin), quietBoot)
	begin = time.Now()
	time.AfterFunc(100*time.Millisecond, func() { _ = m.Kill() })
	p := start(t, c, (Container{Command: []string{"sleep", "1000"}}).spec(nil))
	if !p.wait(20*time.Second, func() bool { return p.ended }) || p.problem == "" {
		t.Errorf("ended %v %q", p.ended, p.problem)
	}
	if took := time.Since(begin); took > c.patience.Limit(10*time.Second) {
		t.Errorf("it took %s", took)
	}
	assert.NoError(t, m.stop(time.Second))
}

package kmod

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const testDevices = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n234 nvidia-nvlink\n235 nvidia-caps\n240 nvidia-uvm\n241 gdrdrv\n\nBlock devices:\n  7 loop\n242 nvidia-block\n"

// node makes a character device that no process opens.
func node(t testing.TB, dir, name string, major, minor uint32) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testfile.Write(t, filepath.Dir(path)+"/", "")
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Skipf("makes device nodes: needs root: %v", err)
	}
	return path
}

// gpuProcesses imitates /proc of a machine whose processes hold devices in every possible way.
func gpuProcesses(t testing.TB) System {
	s := loadedStack(t)
	dev := t.TempDir()
	link := func(path, target string) { testfile.Write(t, s.proc(path), "-> "+target) }
	text := func(path, content string) { testfile.Write(t, s.proc(path), content) }
	text("devices", testDevices)
	text("driver/x", "")
	text("100/comm", "python3\n")
	text("100/cgroup", "0::/kubepods.slice/kubepods-pod"+systemdUID+".slice/cri-containerd-"+testID+".scope\n")
	link("100/fd/0", "/dev/null")
	link("100/fd/3", "socket:[4711]")
	link("100/fd/4", node(t, dev, "nvidiactl", 195, 255))
	link("100/fd/5", node(t, dev, "elsewhere/gpu", 195, 0))
	link("100/fd/6", node(t, dev, "nvidia-uvm", 240, 0))
	link("100/fd/7", dev+"/nvidiactl")
	testfile.Write(t, s.proc("1/root/var/log/pods/team-a_train-0_"+testUID)+"/", "")
	text("200/comm", "bash\n") // holds no GPU device: a block device with nvidia's major, a plain file with a device's name
	link("200/fd/0", node(t, dev, "other", 242, 0))
	text("200/file/nvidia0", "")
	link("200/fd/1", s.proc("200/file/nvidia0"))
	link("200/fd/2", "/nowhere/nvidia0")
	text("300/comm", "nvidia-persiste\n")
	link("300/fd/3", node(t, dev, "nvidia0", 195, 0))
	text("400/comm", "mapper\x1b[0m\n") // mapped, and closed since
	text("400/maps", "00400000-00401000 r--p 00000000 fe:00 77  /usr/bin/mapper\n7f0000000000-7f0000001000 rw-s 00000000 00:05 88                         /dev/nvidia-modeset (deleted)\n"+
		"7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \nnonsense\n")
	link("400/map_files/7f0000000000-7f0000001000", node(t, dev, "nvidia-modeset", 195, 254))
	text("500/comm", "Xorg\n")
	link("500/fd/9", node(t, dev, "card0", 226, 0))
	link("500/fd/10", node(t, dev, "card1", 226, 1))
	testfile.Write(t, s.sys("dev/char/226:0/device/driver"), "-> ../../../../bus/pci/drivers/nvidia")
	testfile.Write(t, s.sys("dev/char/226:1/device/driver"), "-> ../../../../bus/pci/drivers/ast")
	text("600/comm", "empty\n") // ended during the look
	return s
}

func TestHolders(t *testing.T) {
	t.Parallel()
	s := gpuProcesses(t)
	got := require.Value(s.Holders(t.Context(), 300))(t)
	var text []string
	for _, h := range got {
		for i, f := range h.Files {
			h.Files[i] = filepath.Base(f)
		}
		slices.Sort(h.Files)
		text = append(text, h.String())
	}
	want := []string{
		"pid 100 (python3) in container 3f2a41c09b7d pod team-a/train-0: gpu, nvidia-uvm, nvidiactl",
		"pid 400 (mapper?[0m): nvidia-modeset",
		"pid 500 (Xorg): card0",
	}
	assert.Samef(t, want, text, "Holders (-want +got)")
	assert.Equalf(t, 4, len(require.Value(s.Holders(t.Context()))(t)), "Holders without exceptions")
}

// References that no process explains: the kernel's console on nvidia_drm, a process of another pid namespace
// on nvidia_uvm.
func TestHoldersOfTheKernel(t *testing.T) {
	t.Parallel()
	s := loadedStack(t)
	testfile.Write(t, s.proc("devices"), testDevices)
	testfile.Write(t, s.proc("self/comm"), "not a number")
	names := func() (all []string) {
		holders := require.Value(s.Holders(t.Context()))(t)
		for _, h := range holders {
			if h.PID != 0 || !strings.Contains(h.String(), h.Kernel+": ") {
				t.Errorf("holder %+v: %s", h, h)
			}
			all = append(all, h.Kernel)
		}
		return all
	}
	if want := []string{"nvidia_drm", "nvidia_uvm"}; !slices.Equal(names(), want) {
		t.Errorf("Holders = %q; want %q", names(), want)
	}
	require.NoError(t, os.RemoveAll(s.sys("module/nvidia/holders/nvidia_modeset")))
	require.NoError(t, os.WriteFile(s.sys("module/nvidia_uvm/refcnt"), []byte("0\n"), 0o644))
	if want := []string{"nvidia"}; !slices.Equal(names(), want) {
		t.Errorf("Holders without drm = %q; want %q", names(), want)
	}
}

func TestHoldersErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	assert.Errorf(t, assert.Err((System{Proc: dir, Sys: dir}).Holders(t.Context())), "Holders without /proc/devices")
	s := gpuProcesses(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, assert.Err(s.Holders(ctx)), context.Canceled, "Holders when cancelled")
}

func FuzzMaps(f *testing.F) {
	f.Add("7f0000000000-7f0000001000 rw-s 00000000 00:05 88                         /dev/nvidia0 (deleted)")
	f.Add("00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon")
	f.Add("-- - - - 1 /x")
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := parseMap(line)
		if ok && (strings.ContainsAny(m.span, "/.") || !strings.HasPrefix(m.path, "/") || strings.HasPrefix(m.span, "00")) {
			t.Errorf("parseMap(%q) = %+v", line, m)
		}
	})
}

func TestHolds(t *testing.T) {
	t.Parallel()
	h := Holder{Files: []string{"/dev/dri/card0", "/dev/nvidia-uvm-tools", "/dev/nvidiactl", "/host/dev/nvidia-modeset"}}
	for _, module := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"} {
		if !h.Holds(module) || (Holder{Files: []string{"/dev/gdrdrv"}}).Holds(module) || !(Holder{Kernel: module}).Holds(module) {
			t.Error(module)
		}
	}
	assert.Equal(t, false, Holder{Files: []string{"/dev/nvidia-uvm"}}.Holds("nvidia"))
	assert.Equal(t, "pid 7 (x) in pod "+testUID+": /dev/nvidia0", Holder{PID: 7, Command: "x", Pod: testUID, Files: []string{"/dev/nvidia0"}}.String())
	assert.Equal(t, "pid 7 (x) in container 3f2a41c09b7d", Holder{PID: 7, Command: "x", Container: testID}.String())
}

func TestPodOf(t *testing.T) {
	t.Parallel()
	s := System{Proc: t.TempDir(), Root: t.TempDir()}
	for _, folder := range []string{
		"team-a_train-0_" + testUID, "kube-system_kube-apiserver-node.example.org_" + static, "a_b_c_" + testUID, "_x_" + testUID, "../x_y_z", "UPPER_x_" + static,
		"a_b_" + strings.ToUpper(testUID), "a_b_", "readme",
	} {
		testfile.Write(t, s.Root+"/var/log/pods/"+strings.ReplaceAll(folder, "/", "-")+"/", "")
	}
	for uid, want := range map[string][2]string{
		testUID: {"team-a", "train-0"}, static: {"kube-system", "kube-apiserver-node.example.org"}, "": {}, "unknown": {}, "z": {},
	} {
		if namespace, name := s.PodOf(uid); namespace != want[0] || name != want[1] {
			t.Errorf("%q: %s/%s, want %q", uid, namespace, name, want)
		}
	}
	testfile.Write(t, s.proc("1/root/var/log/pods/host_first_"+testUID)+"/", "") // the host's root has precedence over this container's
	if namespace, name := s.PodOf(testUID); namespace != "host" || name != "first" {
		t.Errorf("%s/%s", namespace, name)
	}
	if h := (System{Proc: t.TempDir()}).Process(7); h.PID != 7 || h.String() != "pid 7 ()" {
		t.Errorf("a process that is gone: %+v", h)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a b) c) S 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"))
	f.Add([]byte("12 (x) Z 1 1"))
	f.Add([]byte(") "))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := ParseStat(b); ok && (st.Begun == "" || st.Parent < 0) {
			t.Errorf("%q: %+v", b, st)
		}
	})
}

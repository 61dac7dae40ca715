package kmod

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// loadedStack imitates a machine on which 535.261.03 is loaded and gdrdrv uses it.
func loadedStack(t testing.TB) System {
	files := map[string]string{
		"proc/modules": "gdrdrv 28672 0 - Live 0x0000000000000000 (OE)\n" +
			"nvidia_drm 77824 1 - Live 0x0000000000000000 (POE)\n" +
			"nvidia_modeset 1302528 1 nvidia_drm, Live 0x0000000000000000 (POE)\n" +
			"nvidia_uvm 1523712 2 - Live 0x0000000000000000 (POE)\n" +
			"nvidia 56643584 6 gdrdrv,nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (POE)\n" +
			"drm 614400 3 nvidia_drm,nvidia,[permanent], Live 0x0000000000000000\n" +
			"leaving 16384 -1 - Unloading 0x0000000000000000\nshort line\n../x 1 0 - Live 0x0\n",
		"sys/module/i2c_core/parameters/": "", "sys/module/i2c_core/uevent": "", "sys/module/leaving/uevent": "",
		"sys/module/nvidia/parameters/rm_firmware_active": "\n",
	}
	for name, m := range map[string]struct{ refs, version, holders string }{
		"gdrdrv": {"0", "2.4", ""}, "nvidia_drm": {"1", "535.261.03", ""}, "nvidia_modeset": {"1", "535.261.03", "nvidia_drm"},
		"nvidia_uvm": {"2", "535.261.03", ""}, "nvidia": {"6", "535.261.03", "gdrdrv nvidia_uvm nvidia_modeset"},
		"drm": {"3", "", "nvidia_drm nvidia vanished"},
	} {
		dir := "sys/module/" + name + "/"
		files[dir+"initstate"], files[dir+"refcnt"], files[dir+"holders/"] = "live\n", m.refs+"\n", ""
		if m.version != "" {
			files[dir+"version"], files[dir+"srcversion"] = m.version+"\n", strings.ToUpper(name)+"\n"
		}
		for h := range strings.FieldsSeq(m.holders) {
			files[dir+"holders/"+h] = "-> ../../" + h
		}
	}
	dir := testfile.Tree(t, t.TempDir(), files)
	return System{Sys: dir + "/sys", Proc: dir + "/proc", Kmsg: dir + "/kmsg"}
}

func TestModule(t *testing.T) {
	t.Parallel()
	s := loadedStack(t)
	for name, want := range map[string]Module{
		"nvidia":     {Name: "nvidia", Version: "535.261.03", SrcVersion: "NVIDIA", State: "live", Refs: 6, Holders: []string{"gdrdrv", "nvidia_modeset", "nvidia_uvm"}},
		"nvidia-drm": {Name: "nvidia_drm", Version: "535.261.03", SrcVersion: "NVIDIA_DRM", State: "live", Refs: 1},
		"i2c-core":   {Name: "i2c_core", Refs: -1, BuiltIn: true},
		"leaving":    {Name: "leaving", State: "going", Refs: -1}, // its attributes are removed already
	} {
		got, err := s.Module(name)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Module(%s): %v (-want +got):\n%s", name, err, diff)
		}
	}
	assert.ErrorIsf(t, assert.Err(s.Module("nouveau")), fs.ErrNotExist, "Module(nouveau)")
	for _, name := range []string{"", "../proc", "a/b", "a b", "nvidia\n", strings.Repeat("x", 65)} {
		if _, err := s.Module(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Module(%q): %v; want the name refused", name, err)
		}
	}
}

func TestLoaded(t *testing.T) {
	t.Parallel()
	s := loadedStack(t)
	got := require.Value(s.Loaded())(t)
	var names []string
	for _, m := range got {
		names = append(names, m.Name+" "+m.State+" "+m.Version+" "+strings.Join(m.Holders, ","))
	}
	want := []string{"gdrdrv live 2.4 ", "nvidia_drm live 535.261.03 ", "nvidia_modeset live 535.261.03 nvidia_drm", "nvidia_uvm live 535.261.03 ",
		"nvidia live 535.261.03 gdrdrv,nvidia_modeset,nvidia_uvm", "drm live  nvidia,nvidia_drm", "leaving going  "}
	assert.Samef(t, want, names, "Loaded (-want +got)")
	if all, err := (System{Proc: t.TempDir(), Sys: t.TempDir()}).Loaded(); err != nil || len(all) != 0 {
		t.Errorf("Loaded of a kernel without modules = %v, %v; want none", all, err)
	}
}

func TestStack(t *testing.T) {
	t.Parallel()
	s := loadedStack(t)
	for name, want := range map[string]string{"nvidia": "gdrdrv nvidia_drm nvidia_modeset nvidia_uvm nvidia",
		"nvidia-modeset": "nvidia_drm nvidia_modeset", "drm": "gdrdrv nvidia_drm nvidia_modeset nvidia_uvm nvidia drm"} {
		got, err := s.Stack(name)
		var names []string
		for _, m := range got {
			names = append(names, m.Name)
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("Stack(%s) = %v, %v; want %s", name, names, err, want)
		}
	}
	for _, name := range []string{"nouveau", "i2c_core"} {
		assert.ErrorIsf(t, assert.Err(s.Stack(name)), fs.ErrNotExist, "Stack(%s)", name)
	}
	// A kernel cannot have a circle of holders; a wrong one must not hang Stack.
	testfile.Write(t, s.sys("module/gdrdrv/holders/nvidia"), "-> ../../nvidia")
	if got, err := s.Stack("nvidia"); err != nil || len(got) != 5 {
		t.Errorf("Stack with a circle: %d modules, %v; want 5", len(got), err)
	}
	// nvidia_fs is never among the holders of nvidia, and goes before it.
	testfile.Write(t, s.sys("module/nvidia_fs/initstate"), "live\n")
	if got, err := s.Stack("nvidia"); err != nil || len(got) != 6 || got[0].Name != "nvidia_fs" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	s := loadedStack(t)
	testfile.Write(t, s.sys("module/nvidia/parameters/NvSwitchRegDwords"), "(null)\n")
	testfile.Write(t, s.proc("driver/nvidia/params"), "ResmanDebugLevel: 4294967295\nEnableMSI: 1\nRegistryDwords: \"a=1; b=2\"\nRmMsg: \"\"\nnonsense\ntwo words: 1\n")
	got, err := s.Params("nvidia")
	want := map[string]string{"NVreg_ResmanDebugLevel": "4294967295", "NVreg_EnableMSI": "1", "NVreg_RegistryDwords": "a=1; b=2",
		"NVreg_RmMsg": "", "NvSwitchRegDwords": "(null)", "rm_firmware_active": ""}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Params(nvidia): %v (-want +got):\n%s", err, diff)
	}
	if diff := Differences([]string{"NVreg_ResmanDebugLevel=-1", "NVreg_EnableMSI=0x1", "NVreg_RegistryDwords=a=1; b=2", "NVreg_Unseen=3"}, got); diff != nil {
		t.Errorf("Differences = %q; want none", diff)
	}
	if diff := Differences([]string{"NVreg_EnableMSI=0", "NVreg-RmMsg=x"}, got); len(diff) != 2 || diff[0] != "NVreg_EnableMSI is 1, wanted 0" {
		t.Errorf("Differences = %q; want EnableMSI and RmMsg", diff)
	}
	assert.ErrorIsf(t, assert.Err(s.Params("nouveau")), fs.ErrNotExist, "Params(nouveau)")
}

func TestSameValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "Y", true}, {"0", "N", true}, {"0x10", "16", true}, {"020", "16", true}, {"-1", "4294967295", true}, {"-1", "18446744073709551615", true},
		{"on", "Y", true}, {"1", "2", false}, {"", "0", false}, {"a", "b", false}, {"4294967296", "0", false}, {"-1", "1", false}, {"x", "x", true},
	} {
		assert.Equalf(t, c.same, sameValue(c.a, c.b), "sameValue(%q, %q)", c.a, c.b)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	assert.Errorf(t, Delete("../nvidia"), "Delete took a path")
	tool.AsRoot(t, "it asks the kernel to unload a module that is not there")
	if err := Delete("surely-not-loaded"); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		t.Errorf("Delete of a module that is not loaded: %v; want fs.ErrNotExist (or ENOSYS, EPERM where modules are off)", err)
	}
}

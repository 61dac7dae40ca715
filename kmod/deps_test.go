package kmod

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const testRelease = "6.1.0-38-amd64"

// moduleRoot imitates a host: usr/lib/modules is reached through the link /lib, some modules are compressed.
func moduleRoot(t testing.TB, lines ...string) string {
	dir := "usr/lib/modules/" + testRelease + "/"
	mod := func(name string, depends ...string) string {
		return string(moduleOf("name="+name, "vermagic="+testVermagic, "depends="+strings.Join(depends, ",")))
	}
	if lines == nil {
		lines = []string{"kernel/drivers/gpu/drm/drm.ko.xz:", "kernel/a/drm_kms_helper.ko: kernel/a/cec.ko kernel/drivers/gpu/drm/drm.ko.xz",
			"kernel/a/cec.ko: kernel/drivers/gpu/drm/drm.ko.xz", "kernel/c/ipmi_msghandler.ko.zst: kernel/c/ipmi-devintf.ko", "kernel/c/ipmi-devintf.ko:",
			"kernel/d/video.ko: kernel/d/wmi.ko", "kernel/d/gone.ko:"}
	}
	return testfile.Tree(t, t.TempDir(), map[string]string{
		"lib": "-> usr/lib", dir + "modules.dep": strings.Join(lines, "\n") + "\n",
		dir + "modules.builtin":                  "kernel/i2c/i2c-core.ko\nkernel/d/wmi.ko\n",
		dir + "kernel/drivers/gpu/drm/drm.ko.xz": string(repotest.Compress(t, ".xz", []byte(mod("drm")))),
		dir + "kernel/a/drm_kms_helper.ko":       mod("drm_kms_helper", "cec", "drm"), dir + "kernel/a/cec.ko": mod("cec", "drm"),
		dir + "kernel/c/ipmi_msghandler.ko.zst": string(repotest.Compress(t, ".zst", []byte(mod("ipmi_msghandler", "ipmi-devintf")))),
		dir + "kernel/c/ipmi-devintf.ko":        mod("ipmi_devintf"), dir + "kernel/d/video.ko": mod("video"),
	})
}

func TestInsertDeps(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	testfile.Write(t, k.s.sys("module/ipmi_devintf/initstate"), "live\n")
	roots := []string{t.TempDir(), moduleRoot(t), "/nowhere"}
	inserted, missing, err := k.s.InsertDeps(t.Context(), testRelease, roots, k.record,
		"i2c_core", "ipmi_msghandler", "drm-kms-helper", "drm", "nouveau_x", "video")
	require.NoError(t, err)
	assert.Equalf(t, "ipmi_msghandler drm cec drm_kms_helper video", strings.Join(inserted, " "), "inserted %q", inserted)
	assert.Same(t, inserted, k.recorded)
	if want := []string{"nouveau_x"}; !slices.Equal(missing, want) {
		t.Errorf("missing %q; want %q", missing, want)
	}
	inserted, missing, err = k.s.InsertDeps(t.Context(), testRelease, roots, k.record, "drm", "video")
	if len(inserted)+len(missing) != 0 || err != nil {
		t.Errorf("the second time: %q, %q, %v; want nothing to do", inserted, missing, err)
	}
}

func TestInsertDepsRefused(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	k.refuse["cec"] = unix.EKEYREJECTED
	k.log["cec"] = "3,9,9,-;Loading of unsigned module is rejected\n"
	inserted, _, err := k.s.InsertDeps(t.Context(), testRelease, []string{moduleRoot(t)}, k.record, "drm_kms_helper")
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Module != "cec" || !slices.Equal(inserted, []string{"drm"}) {
		t.Errorf("insertDeps = %q, %v; want drm loaded and cec refused", inserted, err)
	}
	if _, _, err := k.s.InsertDeps(t.Context(), testRelease, []string{moduleRoot(t)}, k.record, "gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v; want fs.ErrNotExist", err)
	}
}

func TestInsertDepsWithoutTree(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	testfile.Write(t, k.s.sys("module/drm/uevent"), "")
	inserted, missing, err := k.s.InsertDeps(t.Context(), testRelease, []string{t.TempDir()}, k.record, "drm", "video")
	if len(inserted) != 0 || !slices.Equal(missing, []string{"video"}) || err != nil {
		t.Errorf("InsertDeps = %q, %q, %v; want video missing", inserted, missing, err)
	}
	for _, release := range []string{"", "..", "a/b", "x y"} {
		if _, _, err := k.s.InsertDeps(t.Context(), release, []string{"/"}, k.record, "video"); err == nil {
			t.Errorf("InsertDeps for release %q: no error", release)
		}
	}
	if _, _, err := k.s.InsertDeps(t.Context(), testRelease, []string{"/"}, k.record, "../x"); err == nil {
		t.Error("InsertDeps took a path for a name")
	}
}

// Lines that depmod does not write: without a colon, in a circle, out of the folder, too long.
func TestInsertDepsDamagedTree(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{
		{"kernel/a.ko"},
		{"kernel/a.ko: kernel/b.ko kernel/c.ko", "kernel/b.ko: kernel/c.ko", "kernel/c.ko: kernel/b.ko"},
		{"kernel/a.ko: kernel/a.ko"},
		{"kernel/a.ko: ../../../etc/a.ko"},
		{"kernel/a.ko: " + strings.Repeat("kernel/b.ko ", 1<<14)},
	} {
		k := newKernel(t)
		_, _, err := k.s.InsertDeps(t.Context(), testRelease, []string{moduleRoot(t, lines...)}, k.record, "a")
		if err == nil || !strings.Contains(err.Error(), "depmod") {
			t.Errorf("%.60q: %v; want an error that names depmod", lines, err)
		}
	}
	root := moduleRoot(t)
	require.NoError(t, os.Remove(root+"/usr/lib/modules/"+testRelease+"/modules.builtin"))
	if _, err := findTree(testRelease, []string{root}); err != nil {
		t.Errorf("without modules.builtin: %v", err)
	}
}

package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

const release = "6.1.0-38-amd64"

func TestAddModules(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	mounted(t, r)
	made := t.TempDir()
	var files []kbuild.File
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm"} {
		testfile.Write(t, made+"/"+name+".ko", "\x7fELF "+name)
		files = append(files, kbuild.File{Path: filepath.Join(made, name+".ko"), SHA256: "digest of " + name})
	}
	require.NoError(t, r.AddModules(t.Context(), staged(t, r), files))
	at := filepath.Join(r.Target, "lib/modules", release)
	ko := filepath.Join(at, "updates/nvidia/nvidia.ko")
	old := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(ko, old, old))
	require.NoError(t, r.AddModules(t.Context(), staged(t, r), files))
	if st, err := os.Stat(ko); err != nil || !st.ModTime().Equal(old) {
		t.Errorf("the same modules were written again: %v", err)
	}
	files[0].SHA256 = "another"
	require.NoError(t, r.AddModules(t.Context(), staged(t, r), files))
	if st, err := os.Stat(ko); err != nil || st.ModTime().Equal(old) {
		t.Errorf("another module was not written: %v", err)
	}
	require.NoError(t, os.Truncate(ko, 1))
	require.NoError(t, r.AddModules(t.Context(), staged(t, r), files))
	if st, err := os.Stat(ko); err != nil || st.Size() == 1 {
		t.Errorf("a damaged module was not written: %v", err)
	}
	files[0].Path = filepath.Join(made, "none.ko")
	assert.ErrorIsf(t, r.AddModules(t.Context(), staged(t, r), files), fs.ErrNotExist, "a file that is not there")
	r.Release = "../../etc"
	assert.Errorf(t, r.AddModules(t.Context(), staged(t, r), files), "a release that is a path was accepted")
}

// modprobe in the root reads the parameters that this program loads modules with, after those of the image. On a full
// disk it reads those of before.
func TestSetOptions(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	testfile.Write(t, r.Image+"/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_A=1 NVreg_B=1\n")
	dir := require.Value(r.Stage(t.Context(), nil))(t)
	want := kmod.Options{"nvidia": {"NVreg_B=1", "NVreg_A=2", "NVreg_RegistryDwords=x=1;y=2 z"}, "nvidia_uvm": {"uvm_x=1"}}
	for _, options := range []kmod.Options{{"nvidia": {"NVreg_Old=1"}}, want} { // a root that is used again
		require.NoError(t, r.SetOptions(dir, options))
	}
	got := require.Value(kmod.ReadOptions([]string{dir + "/etc/modprobe.d"}, ""))(t)
	assert.Same(t, want, got)
	assert.ErrorContains(t, r.SetOptions(dir, kmod.Options{"nvidia": {"NVreg_A=1\n2"}}), "parameters of nvidia")

	small := dir + "/etc/modprobe.d"
	require.NoError(t, unix.Mount("small", small, "tmpfs", 0, "size=8k"))
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	r.NoMounts = true
	require.NoError(t, r.SetOptions(dir, want))
	long := kmod.Options{}
	for n := range 4 {
		long[fmt.Sprint("nvidia_", n)] = []string{"x=" + strings.Repeat("x", 4000)}
	}
	assert.ErrorIs(t, r.SetOptions(dir, long), unix.ENOSPC)
	assert.Same(t, want, require.Value(kmod.ReadOptions([]string{small}, ""))(t))
	assert.Equalf(t, 1, len(testfile.List(t, small)), "files")
}

// The host's /lib/modules in the container must not be written to.
func TestAddModulesLeavesTheHostAlone(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	r.Storage = ""
	over := filepath.Join(r.Image, "usr/lib/modules")
	require.NoError(t, os.MkdirAll(over, 0o755))
	require.NoError(t, unix.Mount("host", over, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(over, unix.MNT_DETACH) })
	mounted(t, r)
	made := t.TempDir()
	testfile.Write(t, made+"/nvidia.ko", "\x7fELF")
	require.NoError(t, r.AddModules(t.Context(), staged(t, r), []kbuild.File{{Path: filepath.Join(made, "nvidia.ko"), SHA256: "x"}}))
	assert.Equalf(t, 0, len(testfile.List(t, over)), "written to the host")
	assert.NoError(t, assert.Err(os.Stat(filepath.Join(r.Target, "lib/modules", release, "updates/nvidia/nvidia.ko"))))
}

func TestSetFirmwarePath(t *testing.T) {
	t.Parallel()
	existing := t.TempDir()
	for name, c := range map[string]struct{ before, after, undone string }{
		"empty":                    {"\n", "/run/nvidia/driver/lib/firmware", "\x00"},
		"ours from before":         {"/run/nvidia/driver/lib/firmware\n", "/run/nvidia/driver/lib/firmware\n", "\x00"},
		"below the target":         {"/run/nvidia/driver/usr/lib/firmware\n", "/run/nvidia/driver/lib/firmware", "\x00"},
		"a folder that is gone":    {"/run/gone/lib/firmware\n", "/run/nvidia/driver/lib/firmware", "\x00"},
		"another program's folder": {existing + "\n", existing + "\n", existing + "\n"},
	} {
		sys := t.TempDir()
		const file = "module/firmware_class/parameters/path"
		testfile.Write(t, sys+"/"+file, c.before)
		err := setFirmwarePath(sys, "/run/nvidia/driver")
		undo := func() error { return clearFirmwarePath(sys, "/run/nvidia/driver") }
		if (err != nil) != (c.before == c.undone) || err != nil && !strings.Contains(err.Error(), "set by another program") {
			t.Errorf("%s: %v", name, err)
		}
		now := func() string { text, _ := os.ReadFile(filepath.Join(sys, file)); return string(text) }
		assert.Equalf(t, c.after, now(), "%s", name)
		require.NoError(t, undo())
		assert.Equalf(t, c.undone, now(), "%s: undone to", name)
		testfile.Write(t, sys+"/"+file, "/theirs\n") // set meanwhile
		require.NoError(t, undo())
		assert.Equalf(t, "/theirs\n", now(), "%s", name)
	}
	none := t.TempDir()
	err := setFirmwarePath(none, "/run/nvidia/driver")
	if !errors.Is(err, fs.ErrNotExist) || clearFirmwarePath(none, "/run/nvidia/driver") != nil {
		t.Errorf("a kernel without the parameter: %v", err)
	}
}

func TestServeFirmware(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(string){
		"split lib": func(dir string) { require.NoError(t, os.MkdirAll(dir+"/lib", 0o755)) },
		"merged lib": func(dir string) {
			testfile.Write(t, dir+"/lib", "-> usr/lib")
			require.NoError(t, os.MkdirAll(dir+"/usr/lib", 0o755))
		},
		"an absolute one": func(dir string) {
			testfile.Write(t, dir+"/lib/firmware/nvidia/"+testVersion, "-> /"+firmwareDir+"/"+testVersion)
		},
	} {
		dir := t.TempDir()
		prepare(dir)
		testfile.Write(t, dir+"/"+firmwareDir+"/"+testVersion+"/gsp.bin", "x")
		root := require.Value(os.OpenRoot(dir))(t)
		require.NoError(t, serveFirmware(root, testVersion))
		require.NoError(t, serveFirmware(root, testVersion))
		assert.NoErrorf(t, assert.Err(root.Stat("lib/firmware/nvidia/"+testVersion+"/gsp.bin")), "%s", name)
		root.Close()
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add([]byte(`{"schema":1,"version":"535.1","id":"00","staged":"2026-01-01T00:00:00Z","files":1,"bytes":2,"checked":{"a":1}}`))
	f.Add([]byte(`{"schema":1,"checked":{"../x":-1}} x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseMarker(text); err == nil && (len(m.Checked) == 0 || m.Schema != markerSchema) {
			t.Errorf("accepted %+v", m)
		}
	})
}

// The sysfs of a privileged pod with a network of its own, as containerd makes it: the sandbox mounts it
// first and read-only, which makes the whole file system read-only. The container's mount then has the option
// rw but is not writable.
func TestSysfsOfAPod(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "for namespaces of its own")
	sandbox, container := t.TempDir(), t.TempDir()
	var err error
	onOwnThread(func() { err = sysfsOfAPod(sandbox, container) })
	assert.NoError(t, err)
}

func sysfsOfAPod(sandbox, container string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("sysfs", sandbox, "sysfs", unix.MS_RDONLY, ""),
		unix.Mount("sysfs", container, "sysfs", 0, "")); err != nil {
		return err
	}
	file := filepath.Join(container, "class/net/lo/tx_queue_len") // of this network only
	if f, err := os.OpenFile(file, os.O_WRONLY, 0); !errors.Is(err, unix.EROFS) {
		return errors.Join(errors.New("it is writable already"), err, f.Close())
	}
	if err := writeParameter(container, file, "123"); err != nil {
		return err
	}
	if text, err := readParameter(file); text != "123" || err != nil {
		return errors.Join(errors.New("not written: "+text), err)
	}
	if _, err := os.OpenFile(filepath.Join(sandbox, "class/net/lo/tx_queue_len"), os.O_WRONLY, 0); !errors.Is(err, unix.EROFS) {
		return errors.Join(errors.New("the sandbox' mount is writable, too"), err)
	}
	return nil
}

func TestSync(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	require.NoError(t, r.Sync(t.Context())) // there is no root
	dir := require.Value(r.Stage(t.Context(), nil))(t)
	boot := func(set string) string { // of the marker
		root := require.Value(os.OpenRoot(dir))(t)
		defer root.Close()
		m := require.Value(readMarker(root))(t)
		if set != "" {
			m.Boot = set
			require.NoError(t, m.write(root))
		}
		return m.Boot
	}
	assert.Equalf(t, true, reused(t, r), "in the same boot")

	// The machine goes down before Sync.
	boot("another boot")
	require.NoError(t, r.Sync(t.Context()))
	assert.Equal(t, "another boot", boot(""))
	require.NoError(t, r.Mount(t.Context(), dir))
	adoptable(t, r, "went down")
	require.NoError(t, r.Unmount(t.Context()))
	assert.Equalf(t, false, reused(t, r), "in the next boot")

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("SIGTERM")
	cancel(why)
	if err := r.Sync(ctx); err != nil && !errors.Is(err, why) { // the sync may end before the check of ctx
		t.Errorf("stopped: %v", err)
	}
	require.NoError(t, r.Sync(t.Context()))
	assert.Equalf(t, "", boot(""), "after the wait")
	assert.Equalf(t, true, reused(t, r), "after the wait")
}

// Modules that the root has from the image are linked, and the remains of an earlier attempt are not written
// to.
func TestAddModulesLinks(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "nvidia.ko")
	testfile.Write(t, dir+"/nvidia.ko", "module")
	root := require.Value(r.Stage(t.Context(), nil))(t)
	inRoot := testfile.Write(t, root+"/"+from, "module")
	st := require.Value(os.Stat(from))(t)
	require.NoError(t, os.Chtimes(inRoot, st.ModTime(), st.ModTime()))
	require.NoError(t, os.Remove(filepath.Join(root, "usr/bin/kmod")))
	require.NoError(t, os.Remove(filepath.Join(root, "usr/sbin/modprobe")))
	to := filepath.Join(root, "lib/modules", release, "updates/nvidia/nvidia.ko")
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.Link(inRoot, to+".tmp")) // an attempt that was killed
	for _, sum := range []string{"1", "2"} {
		require.NoError(t, r.AddModules(t.Context(), staged(t, r), []kbuild.File{{Path: from, SHA256: sum}}))
		var st unix.Stat_t
		require.NoError(t, unix.Stat(to, &st))
		assert.Equalf(t, 2, int(st.Nlink), "names")
		assert.Equalf(t, true, isSameFile(inRoot, to), "linked")
	}
	testfile.Write(t, dir+"/nvidia.ko", "signed module") // differs from the image's
	require.NoError(t, r.AddModules(t.Context(), staged(t, r), []kbuild.File{{Path: from, SHA256: "3"}}))
	assert.Equal(t, "signed module", string(require.Value(os.ReadFile(to))(t)))
	assert.Equalf(t, "module", string(require.Value(os.ReadFile(inRoot))(t)), "the image's module is")
}

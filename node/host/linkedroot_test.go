package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/mounttable"
)

// TestMountedRootWithoutStorage uses a root that is not served, in its own folder: nothing is mounted here.
func TestMountedRootWithoutStorage(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults()
	cfg.Run, cfg.StateDir = t.TempDir(), t.TempDir()
	var log logtest.Log
	r, err := newRoots(cfg, driverinfo.Description{Driver: v535, ID: strings.Repeat("0", 64)}, "6.1.0-38-amd64", false, log.Logger())
	require.NoError(t, err)
	ctx, m := t.Context(), r.(*mountedRoot)
	if dir, err := m.Stage(ctx); dir != "" || err != nil || len(log.Lines()) != 1 {
		t.Errorf("staged %q, %v, said %q", dir, err, log.Lines())
	}
	assert.Equalf(t, 0, require.Value(m.Mounted())(t), "mounts")
	if ok, why := m.Adopt(ctx); ok || why == "" {
		t.Errorf("adopted nothing: %q", why)
	}
	assert.Errorf(t, m.MountOld(ctx, "/var/lib/nvidia-driver/roots/x"), "a root that was not staged here")
	assert.NoError(t, errors.Join(m.Unmount(ctx), m.Prune(ctx)))
	assert.ErrorIs(t, m.shared(fs.ErrInvalid), fs.ErrInvalid)
}

// newLinked returns a linked root in its own folders: real files, a real link.
func newLinked(t *testing.T, storage, run, version, id string) *linkedRoot {
	t.Helper()
	image := t.TempDir()
	const lib = "usr/lib/x86_64-linux-gnu"
	for _, dir := range []string{lib, "usr/share/nvidia-driver", "usr/bin"} {
		require.NoError(t, os.MkdirAll(filepath.Join(image, dir), 0o755))
	}
	for _, name := range []string{lib + "/libcuda.so." + version, lib + "/libnvidia-ml.so." + version, "usr/bin/nvidia-smi"} {
		require.NoError(t, os.WriteFile(filepath.Join(image, name), []byte("\x7fELF"), 0o600))
	}
	return &linkedRoot{&stagedRoot{log: logtest.New(t), release: "6.1.0-38-amd64", root: driverroot.Root{
		Target: filepath.Join(run, "driver"), Image: image, Storage: storage, ID: strings.Repeat(id, 64), Version: version, HostDev: true, NoMounts: true, Log: logtest.New(t),
	}}}
}

// serveLinked stages and serves a root as the phases do.
func serveLinked(t *testing.T, l *linkedRoot) string {
	t.Helper()
	ctx := t.Context()
	dir, err := l.Stage(ctx)
	if err == nil {
		module := filepath.Join(t.TempDir(), "nvidia.ko")
		err = errors.Join(os.WriteFile(module, []byte("module"), 0o600), l.AddModules(ctx, []kbuild.File{{Name: "nvidia", Path: module, SHA256: "0"}}), l.Mount(ctx))
	}
	require.NoError(t, err)
	assert.Equalf(t, 1, require.Value(l.Mounted())(t), "layers")
	return dir
}

func TestLinkedRoot(t *testing.T) {
	t.Parallel()
	storage, run := t.TempDir(), t.TempDir()
	ctx := t.Context()
	old := newLinked(t, storage, run, "470.256.02", "a")
	if ok, why := old.Adopt(ctx); ok || why == "" {
		t.Error("adopted nothing")
	}
	oldDir := serveLinked(t, old)
	if _, err := os.Stat(filepath.Join(run, "driver/lib/modules/6.1.0-38-amd64/updates/nvidia/nvidia.ko")); err != nil {
		t.Error(err)
	}
	same := newLinked(t, storage, run, "470.256.02", "a")
	if ok, why := same.Adopt(ctx); !ok {
		t.Error(why)
	}
	rebuilt := newLinked(t, storage, run, "470.256.02", "b")
	if ok, why := rebuilt.Adopt(ctx); !ok || why != "" {
		t.Errorf("%v, %q", ok, why)
	}
	// An upgrade that fails serves the old root again.
	l := newLinked(t, storage, run, v535, "c")
	if ok, why := l.Adopt(ctx); ok || why == "" {
		t.Error("adopted another version")
	}
	dir := serveLinked(t, l)
	assert.Equalf(t, dir, require.Value(os.Readlink(filepath.Join(run, "driver")))(t), "leads to")
	require.NoError(t, errors.Join(l.Unmount(ctx), l.MountOld(ctx, oldDir)))
	assert.Equalf(t, oldDir, require.Value(os.Readlink(filepath.Join(run, "driver")))(t), "leads to")
	assert.Errorf(t, l.MountOld(ctx, "/elsewhere/470"), "served what was not staged here")
	assert.NoError(t, errors.Join(l.Prune(ctx), l.Unmount(ctx), l.Unmount(ctx)))
	assert.Equalf(t, 0, require.Value(l.Mounted())(t), "layers")
	if left, err := filepath.Glob(filepath.Join(run, "*")); len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestRootsOfBothKinds checks that a privileged container removes the link of an unprivileged one; the
// opposite is impossible, and the error says so.
func TestRootsOfBothKinds(t *testing.T) {
	t.Parallel()
	l := newLinked(t, t.TempDir(), t.TempDir(), v535, "c")
	serveLinked(t, l)
	m := &mountedRoot{l.stagedRoot}
	assert.Equalf(t, 1, require.Value(m.Mounted())(t), "layers")
	if ok, why := m.Adopt(t.Context()); ok || why == "" {
		t.Error("adopted a link")
	}
	require.NoError(t, m.Unmount(t.Context()))
	assert.Equalf(t, 0, require.Value(m.Mounted())(t), "layers")
	mounted := &driverroot.MountedError{Target: "/run/nvidia/driver", Mounts: []mounttable.Mount{{Point: "/run/nvidia/driver", Source: "/dev/sda"}}}
	if err := foreignMount(mounted); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "umount -R /run/nvidia/driver") {
		t.Error(err)
	}
	if err := foreignMount(context.Canceled); !errors.Is(err, context.Canceled) || errors.Is(err, config.ErrConfig) {
		t.Error(err)
	}
}

func TestLinkable(t *testing.T) {
	t.Parallel()
	host, dir := t.TempDir(), t.TempDir()
	there := filepath.Join(host, dir)
	root := func(storage string, hostDev bool) *stagedRoot {
		return &stagedRoot{log: logtest.New(t), root: driverroot.Root{Storage: storage, HostDev: hostDev}}
	}
	want := func(s *stagedRoot, text string) {
		t.Helper()
		if err := s.linkable(host); text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	want(root("", true), "at --state-dir")
	want(root(dir, false), "host's /dev")
	want(root(dir+"/gone", true), "no such file")
	want(root(dir, true), "is another one on the host")
	require.NoError(t, os.MkdirAll(filepath.Dir(there), 0o755))
	require.NoError(t, os.Symlink(dir, there))
	want(root(dir, true), "")
	require.NoError(t, os.Remove(there))
	require.NoError(t, os.Mkdir(there, 0o755))
	want(root(dir, true), "is another one on the host")
	cfg := config.Defaults()
	cfg.RootKind, cfg.Run, cfg.StateDir = config.RootLink, t.TempDir(), t.TempDir()
	if _, err := newRoots(cfg, driverinfo.Description{Driver: v535, ID: strings.Repeat("0", 64)}, "6.1.0-38-amd64", false, logtest.New(t)); !errors.Is(err, config.ErrConfig) {
		t.Error(err)
	}
	cfg.RootKind = "copy"
	assert.ErrorContains(t, cfg.Check(), "DRIVER_ROOT_KIND")
}

// TestMayOpen checks that only EPERM, the answer of the cgroup of devices, counts as a refusal, and not a
// missing device or one with other permissions.
func TestMayOpen(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/dev/null", "/dev/nowhere", t.TempDir()} {
		if !mayOpen(path) {
			t.Error(path)
		}
	}
	if _, err := os.Stat("/proc/driver/nvidia"); err == nil {
		t.Skip("there is a driver here")
	}
	assert.ErrorIs(t, assert.Err(answerFromProcfs()), fs.ErrNotExist)
}

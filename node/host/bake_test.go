package host

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// bakery is a bake with the fake compiler of builder, in an image that has the driver's libraries.
func bakery(t *testing.T) (Bake, driverinfo.Description) {
	t.Helper()
	c := builder(t, "cp KOS/*.ko .")
	for _, name := range []string{"libcuda.so.", "libnvidia-ml.so."} {
		testfile.Write(t, c.root+"/usr/lib/x86_64-linux-gnu/"+name+v535, "\x7fELF "+name)
	}
	testfile.Write(t, c.root+"/usr/share/nvidia-driver/big", strings.Repeat("0123456789abcdef", 1<<14))
	cfg := config.Defaults()
	cfg.Run, cfg.StateDir = t.TempDir(), filepath.Join(t.TempDir(), "state")
	b := Bake{Config: cfg, Kernels: []string{imageKernel}, image: c.root}
	b.modules = func(ctx context.Context, release string) (*kbuild.Set, string, error) {
		c := c
		c.Release, c.Dir = release, filepath.Join(b.Config.StateDir, "modules")
		set, err := CompileForImage(ctx, c, logtest.New(t))
		return set, status.Compiled, err
	}
	return b, require.Value(readInfo(c.root))(t)
}

// start does what a start on a node does with the folder: it finds the modules and stages the root.
func (b Bake) start(t *testing.T, info driverinfo.Description, w node.Want) (found bool, reused bool, said string) {
	t.Helper()
	var log logtest.Log
	s := &supply{cfg: b.Config, info: info, log: log.Logger(), image: filepath.Join(t.TempDir(), "none")}
	set, _, err := s.Find(t.Context(), w)
	if err != nil && !errors.Is(err, kbuild.ErrMiss) {
		t.Fatal(err)
	}
	root := newRoot(b.Config, info, w.Release, true, log.Logger())
	root.Image, root.NoMounts = b.image, true
	dir := require.Value(root.Stage(t.Context(), nil))(t)
	if set != nil {
		require.NoError(t, root.AddModules(t.Context(), dir, set.Modules))
	}
	return err == nil, !strings.Contains(log.String(), logtest.Staged), log.String()
}

var baseWant = node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel, Modules: []string{"nvidia", "nvidia-uvm", "nvidia-modeset"}}

// files returns all files below a folder with the times of their changes.
func files(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	all := map[string]time.Time{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all[path] = info.ModTime()
		}
		return err
	}))
	return all
}

// TestBake checks that a start with a baked folder finds modules and root, and writes nothing.
func TestBake(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	b, info := bakery(t)
	got := require.Value(b.Run(t.Context(), logtest.New(t)))(t)
	if got.ID != info.ID || len(got.Kernels) != 1 || len(got.Kernels[0].Modules) != 5 || got.Kernels[0].Source != status.FromCache ||
		got.Root != "roots/"+v535+"-"+info.ID[:12] {
		t.Errorf("%+v", got)
	}
	goldentest.Schema(t, "bake.schema.json", string(require.Value(json.Marshal(got))(t)))
	for _, path := range []string{got.Root + "/usr/lib/x86_64-linux-gnu/libcuda.so." + v535, got.Kernels[0].Folder + "/nvidia.ko",
		got.Root + "/lib/modules/" + imageKernel + "/updates/nvidia/nvidia.ko"} {
		assert.NoError(t, assert.Err(os.Stat(filepath.Join(b.Config.StateDir, path))))
	}
	b.modules = nil // the node's own way, which finds them
	var log logtest.Log
	again := require.Value(b.Run(t.Context(), log.Logger()))(t)
	assert.Same(t, got, again)
	if said := log.String(); !strings.Contains(said, "modules kernel="+imageKernel+" source=cache") || strings.Contains(said, "staged path") {
		t.Error(said)
	}
	before := files(t, b.Config.StateDir)
	found, reused, said := b.start(t, info, baseWant)
	if !found || !reused || strings.Contains(said, "warning") {
		t.Errorf("modules found %v, root reused %v\n%s", found, reused, said)
	}
	assert.Same(t, before, files(t, b.Config.StateDir))
}

// TestBakedStorage checks a start with a baked folder on a disk that is full or read-only: what fits is used,
// and nothing is written, also beside the remains of a bake that was killed. What does not fit ends the start
// with an error that says what to do, and leaves the folder as it was, unless old roots make room.
func TestBakedStorage(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	full := func(t *testing.T, dir string) {
		err := os.WriteFile(dir+"/filling", make([]byte, 8<<20), 0o600)
		assert.ErrorIsf(t, err, unix.ENOSPC, "fill the disk")
	}
	readOnly := func(t *testing.T, dir string) {
		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		id    string // of the image that starts; "": the one that baked
		want  error
		text  string
	}{
		"full":                     {full, "", nil, ""},
		"read-only":                {readOnly, "", nil, ""},
		"read-only, another image": {readOnly, "1", unix.EROFS, "mount it writable, or bake it for this image"},
	} {
		t.Run(name, func(t *testing.T) {
			b, info := bakery(t)
			dir := b.Config.StateDir
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, unix.Mount("state", dir, "tmpfs", 0, "size=8m"))
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			require.Value(b.Run(t.Context(), logtest.New(t)))(t)
			testfile.Write(t, dir+"/roots/.tmp-1/usr/lib/libcuda.so", "half")
			testfile.Write(t, dir+"/modules/.tmp-1/nvidia.ko", "half")
			testfile.Write(t, dir+"/log/compile.log", "of the bake")
			c.spoil(t, dir)
			before := files(t, dir)
			if c.id == "" {
				found, reused, said := b.start(t, info, baseWant)
				assert.Equalf(t, true, found, "modules are found:\n%s", said)
				assert.Equalf(t, true, reused, "the root is reused:\n%s", said)
			} else {
				info.ID = strings.Repeat(c.id, 64)
				root := newRoot(b.Config, info, imageKernel, true, logtest.New(t))
				root.Image, root.NoMounts = b.image, true
				_, err := root.Stage(t.Context(), nil)
				assert.ErrorIs(t, err, c.want)
				assert.ErrorContains(t, err, c.text)
				_, err = (&supply{cfg: b.Config, info: info}).logFile(baseWant)
				assert.Equalf(t, errors.Is(c.want, unix.EROFS), errors.Is(err, unix.EROFS), "a compile: %v", err)
			}
			after := files(t, dir)
			delete(before, dir+"/roots/.tmp-1/usr/lib/libcuda.so") // a start removes it where it can
			delete(after, dir+"/roots/.tmp-1/usr/lib/libcuda.so")
			assert.Same(t, before, after)
		})
	}
}

// TestBakeFails checks that the next bake ends what one could not end, and that two programs never fill a folder.
func TestBakeFails(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	b, info := bakery(t)
	dir := b.Config.StateDir
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, unix.Mount("full", dir, "tmpfs", 0, "size=128k"))
	_, err := b.Run(t.Context(), logtest.New(t))
	assert.ErrorIsf(t, err, unix.ENOSPC, "full disk")
	require.NoError(t, unix.Unmount(dir, 0))

	made := b.modules
	b.modules = func(context.Context, string) (*kbuild.Set, string, error) {
		return nil, "", &kbuild.CompileError{Err: errors.New("no")}
	}
	_, err = b.Run(t.Context(), logtest.New(t))
	require.ErrorAs[*kbuild.CompileError](t, err)
	assert.ErrorContains(t, err, "modules for kernel "+imageKernel)
	if found, _, said := b.start(t, info, baseWant); found {
		t.Error(said)
	}
	b.modules = made
	require.Value(b.Run(t.Context(), logtest.New(t)))(t)
	if found, reused, said := b.start(t, info, baseWant); !found || !reused {
		t.Errorf("again: modules found %v, root reused %v\n%s", found, reused, said)
	}

	held := require.Value(lock.Acquire(t.Context(), lock.Options{Run: b.Config.Run, Self: lock.Holder{PID: 7, Pod: "gpu/x"}}))(t)
	if _, err := b.Run(t.Context(), logtest.New(t)); !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), "gpu/x") {
		t.Errorf("beside a driver: %v", err)
	}
	require.NoError(t, held.Release())
	file := lock.Path(b.Config.Run)
	require.NoError(t, errors.Join(os.Remove(file), os.Symlink("elsewhere", file)))
	assert.ErrorIsf(t, assert.Err(b.Run(t.Context(), logtest.New(t))), unix.ELOOP, "a driver may run")
	require.NoError(t, os.Remove(file))
	left := status.Snapshot{Schema: status.Schema, BootID: require.Value(driverroot.BootID())(t), State: status.Detached, Up: &status.Driver{Version: v535}}
	require.NoError(t, status.Folder(b.Config.Run).Save(left))
	assert.Equalf(t, v535, require.Value(b.store(logtest.New(t)))(t).Predecessor().Up.Version, "a driver that was left in use")
	unlock := require.Value(b.lock())(t)
	assert.ErrorIsf(t, assert.Err(b.Run(t.Context(), logtest.New(t))), lock.ErrHeld, "two bakes")
	unlock()
	b.Kernels = nil
	assert.ErrorIsf(t, assert.Err(b.Run(t.Context(), logtest.New(t))), config.ErrConfig, "no kernel")
}

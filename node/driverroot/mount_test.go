package driverroot

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/mounttable"
)

// everyMount are the mount points of a root, relative to it, in the order in which they are mounted.
var everyMount = []string{".", "proc", "run/nvidia-persistenced", "run/nvidia-fabricmanager", "run/nvidia-topologyd", "sys", "dev"}

func TestMountStaged(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	mounted(t, r)
	assert.Same(t, everyMount, points(t, r))
	adoptable(t, r, "")
	// The socket of one of our daemons is visible.
	testfile.WriteMode(t, r.Image+"/run/nvidia-persistenced/socket", "", 0o600)
	assert.NoError(t, assert.Err(os.Stat(filepath.Join(r.Target, "run/nvidia-persistenced/socket"))))
	assert.ErrorContains(t, r.Mount(t.Context(), staged(t, r)), "has 7 mount(s) already")
	// The container ends, the root stays.
	require.NoError(t, os.RemoveAll(r.Image))
	assert.NoError(t, assert.Err(os.Stat(filepath.Join(r.Target, markerPath))))
	assert.NoError(t, r.Unmount(t.Context()))
	assert.Equalf(t, 0, len(points(t, r)), "left")
}

// A root on storage that is read-only by now, as that of a machine image, is served as any other.
func TestMountReadOnly(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	require.NoError(t, os.MkdirAll(r.Storage, 0o755))
	require.NoError(t, unix.Mount("storage", r.Storage, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(r.Storage, unix.MNT_DETACH) })
	options := kmod.Options{"nvidia": {"NVreg_A=1"}}
	for _, with := range []kmod.Options{nil, options} {
		dir := require.Value(r.Stage(t.Context(), nil))(t)
		require.NoError(t, r.SetOptions(dir, with))
		require.NoError(t, r.Sync(t.Context()))
		require.NoError(t, unix.Mount("", r.Storage, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		assert.Equalf(t, true, reused(t, r), "the root is used")
		require.NoError(t, r.SetOptions(dir, with))
		require.NoError(t, r.Mount(t.Context(), dir))
		require.NoError(t, r.Prune(t.Context(), nil))
		adoptable(t, r, "")
		require.NoError(t, r.Unmount(t.Context()))
		require.NoError(t, unix.Mount("", r.Storage, "", unix.MS_REMOUNT, ""))
	}
	assert.Equal(t, "options nvidia NVreg_A=1\n", strings.SplitAfterN(testfile.Read(t, staged(t, r)+"/"+optionsFile), "\n", 2)[1])
}

// The image itself is served, also the files that volumes cover, above all the firmware.
func TestImageBind(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	r.Storage = ""
	over := filepath.Join(r.Image, "usr/lib/firmware")
	require.NoError(t, unix.Mount("volume", over, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(over, unix.MNT_DETACH) })
	mounted(t, r)
	assert.Same(t, everyMount, points(t, r))
	require.Value(os.Stat(filepath.Join(r.Target, "lib/firmware/nvidia", testVersion, "gsp_ga10x.bin")))(t)
	testfile.WriteMode(t, r.Image+"/dev/nvidia0", "", 0o600)
	require.Value(os.Stat(filepath.Join(r.Target, "dev/nvidia0")))(t)
	adoptable(t, r, "")
}

func TestSharedPropagation(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	// The storage is shared as well, as on a host where systemd shares all mounts: submounts must not appear
	// there.
	require.NoError(t, os.MkdirAll(r.Storage, 0o755))
	require.NoError(t, unix.Mount("storage", r.Storage, "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", r.Storage, "", unix.MS_SHARED, ""))
	t.Cleanup(func() { _ = unix.Unmount(r.Storage, unix.MNT_DETACH) })
	ask, answer := peer(t)

	mounted(t, r)
	ask <- r.Target
	if got, want := (<-answer), len(points(t, r)); got != want || want != len(everyMount) {
		t.Errorf("a peer namespace sees %d mounts, we see %d", got, want)
	}
	if used, err := mounttable.Read(func(p string) bool { return mounttable.AtOrBelow(p, staged(t, r)) }); err != nil || len(used) > 0 {
		t.Errorf("mounts in the storage: %v %v", used, err)
	}
	require.NoError(t, r.Unmount(t.Context()))
	ask <- r.Target
	assert.Equalf(t, 0, <-answer, "after unmounting, a peer sees")
}

// peer is a thread in another, new mount namespace that counts the mounts at and below a folder.
func peer(t *testing.T) (ask chan<- string, answer <-chan int) {
	questions, answers := make(chan string), make(chan int)
	ready := make(chan error)
	go onOwnThread(func() {
		ready <- unix.Unshare(unix.CLONE_NEWNS)
		for dir := range questions {
			text, _ := os.ReadFile("/proc/thread-self/mountinfo")
			n := 0
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) > 4 && mounttable.AtOrBelow(f[4], dir) {
					n++
				}
			}
			answers <- n
		}
	})
	require.NoError(t, <-ready)
	t.Cleanup(func() { close(questions) })
	return questions, answers
}

func TestNotShared(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	require.NoError(t, unix.Mount("", filepath.Dir(r.Target), "", unix.MS_PRIVATE, ""))
	var log logtest.Log
	r.Log = log.Logger()
	mounted(t, r)
	assert.Equal(t, len(everyMount), len(points(t, r)))
	assert.Equal(t, staged(t, r), require.Value(r.Adopt(t.Context()))(t))
	assert.Equal(t, 2, strings.Count(log.String(), "nobody else sees the driver root"))
}

// In whatever order mounts were stacked, all of them go.
func TestUnmountStacks(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 1 + rng.IntN(12) {
			at := filepath.Join(r.Target, []string{"", "dev", "dev/pts", "run", "run/a", "run/a/b", "run-a"}[rng.IntN(7)])
			require.NoError(t, os.MkdirAll(at, 0o755))
			require.NoError(t, unix.Mount("x", at, "tmpfs", 0, ""))
		}
		if err := r.Unmount(t.Context()); err != nil || len(points(t, r)) > 0 {
			t.Fatalf("seed %d: %v, left %q", seed, err, points(t, r))
		}
	}
}

func TestStaleLayerAlone(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(gone, 0o755))
	require.NoError(t, os.Mkdir(r.Target, 0o755))
	require.NoError(t, unix.Mount(gone, r.Target, "", unix.MS_BIND, ""))
	adoptable(t, r, "the root of a container, which may be gone")
	require.NoError(t, os.Remove(gone))
	adoptable(t, r, "removed at its source")
	mounts, err := r.mounts()
	if err != nil || len(mounts) != 1 || !mounts[0].Deleted() {
		t.Errorf("mounts: %+v, %v", mounts, err)
	}
	require.NoError(t, r.Unmount(t.Context()))
	mounted(t, r)
	require.NoError(t, unix.Mount(r.Image, r.Target, "", unix.MS_BIND, ""))
	adoptable(t, r, "2 layers are mounted there")
	assert.NoError(t, r.Unmount(t.Context()))
	assert.Equalf(t, 0, len(points(t, r)), "left")
	mounted(t, r)
}

func TestUnmountBusy(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	mounted(t, r)
	hold := func() *os.File { return require.Value(os.Open(filepath.Join(r.Target, "usr/bin/nvidia-smi")))(t) }
	held := hold()
	time.AfterFunc(50*time.Millisecond, func() { _ = held.Close() })
	var log logtest.Log
	r.Log = log.Logger()
	err := r.Unmount(t.Context())
	if err != nil || strings.Contains(log.String(), "still in use") {
		t.Fatalf("free after a moment: %v, %s", err, &log)
	}

	mounted(t, r)
	defer hold().Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, r.Unmount(ctx), context.DeadlineExceeded)
	started := time.Now()
	err = r.Unmount(t.Context())
	if took := time.Since(started); err != nil || took < busyFor {
		t.Errorf("after %v: %v", took, err)
	}
	assert.Contains(t, log.String(), "a mount is still in use: it is detached, and who uses it keeps it path="+r.Target+" ")
	assert.Equalf(t, 0, len(points(t, r)), "left")
}

func TestMountFailureLeavesNothing(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	require.NoError(t, os.RemoveAll(filepath.Join(r.Image, "sys")))
	require.Value(r.Stage(t.Context(), nil))(t)
	before := allMounts(t)
	assert.ErrorIs(t, r.Mount(t.Context(), staged(t, r)), unix.ENOENT)
	assert.Same(t, before, allMounts(t))
	// A link in the root must not lead a mount out of it.
	require.NoError(t, os.RemoveAll(filepath.Join(staged(t, r), "run")))
	require.NoError(t, os.Symlink("/run", filepath.Join(staged(t, r), "run")))
	assert.ErrorContains(t, r.Mount(t.Context(), staged(t, r)), "is not a folder")
	assert.Same(t, before, allMounts(t))
}

// allMounts returns the mounts of this test: other tests run at the same time.
func allMounts(t *testing.T) []string {
	t.Helper()
	base := filepath.Dir(t.TempDir())
	mounts := require.Value(mounttable.Read(func(p string) bool { return mounttable.AtOrBelow(p, base) }))(t)
	var found []string
	for _, m := range mounts {
		found = append(found, m.Point+" "+m.Root)
	}
	return found
}

func TestRefresh(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	mounted(t, r)
	before := require.Value(r.mounts())(t)
	// Nothing changed: nothing is done.
	require.NoError(t, assert.Err(r.Adopt(t.Context())))
	after := require.Value(r.mounts())(t)
	assert.Same(t, before, after)
	// Another container of the same image starts.
	next := *r
	next.Image = image(t, filepath.Join(t.TempDir(), "second"))
	testfile.WriteMode(t, next.Image+"/dev/nvidia7", "", 0o600)
	require.NoError(t, unix.Mount("x", filepath.Join(r.Target, "sys"), "tmpfs", 0, "")) // stacked by somebody
	require.NoError(t, assert.Err(next.Adopt(t.Context())))
	assert.NoError(t, assert.Err(os.Stat(filepath.Join(r.Target, "dev/nvidia7"))))
	assert.Same(t, everyMount, points(t, r))
	// A root that an older version of this program mounted, without dev and sys, gets them.
	for _, dir := range []string{"dev", "sys"} {
		require.NoError(t, unix.Unmount(filepath.Join(r.Target, dir), 0))
		require.NoError(t, os.Remove(filepath.Join(r.Target, dir)))
	}
	require.NoError(t, assert.Err(next.Adopt(t.Context())))
	assert.Same(t, everyMount, points(t, r))
	after = require.Value(r.mounts())(t)
	assert.Equalf(t, before[0].ID, after[0].ID, "the base mount is another")
}

// The host's /dev in a root outlives the container, and the next container keeps that mount: programs that
// use it notice nothing.
func TestHostDevStays(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	hostDev := func(image string) (end func()) {
		t.Helper()
		dev := filepath.Join(image, "dev")
		if err := unix.Mount("devtmpfs", dev, "devtmpfs", 0, ""); err != nil {
			t.Skip("no devtmpfs here: ", err)
		}
		end = func() { _ = unix.Unmount(dev, unix.MNT_DETACH) }
		t.Cleanup(end)
		return end
	}
	r := testRoot(t)
	end := hostDev(r.Image)
	mounted(t, r)
	before := require.Value(r.mounts())(t)
	end() // with its container
	assert.NoError(t, assert.Err(os.Stat(filepath.Join(r.Target, "dev/null"))))
	next := *r
	next.Image = image(t, filepath.Join(t.TempDir(), "second"))
	hostDev(next.Image)
	require.NoError(t, assert.Err(next.Adopt(t.Context())))
	after := require.Value(r.mounts())(t)
	id := func(mounts []mounttable.Mount) int {
		return mounts[slices.IndexFunc(mounts, func(m mounttable.Mount) bool { return filepath.Base(m.Point) == "dev" })].ID
	}
	assert.Equalf(t, id(before), id(after), "the mount of /dev")
}

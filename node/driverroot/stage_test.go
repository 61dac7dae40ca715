package driverroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/mounttable"
)

// describe lists a tree with everything that a copy has to keep.
func describe(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	first := map[uint64]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		line := d.Type().String() + " " + time.Unix(st.Mtim.Unix()).UTC().Format(time.RFC3339Nano)
		line += strings.Join([]string{"", fs.FileMode(st.Mode & 0o7777).String(), itoa(st.Uid), itoa(st.Gid), itoa(uint32(st.Rdev))}, " ")
		if d.Type().IsRegular() {
			text := require.Value(os.ReadFile(p))(t)
			value := make([]byte, 64)
			n, _ := unix.Getxattr(p, "security.capability", value)
			line += " " + string(text) + " " + string(value[:max(n, 0)])
			if st.Nlink > 1 {
				if _, ok := first[st.Ino]; !ok {
					first[st.Ino] = rel
				}
				line += " linked with " + first[st.Ino]
			}
		}
		if target, err := os.Readlink(p); err == nil {
			line += " -> " + target
		}
		found[rel] = line
		return nil
	}))
	return found
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func TestStageCopiesFaithfully(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	at := func(name string) string { return filepath.Join(r.Image, name) }
	testfile.WriteMode(t, r.Image+"/usr/bin/ping", "\x7fELF", 0o755)
	require.NoError(t, os.Chown(at("usr/bin/ping"), 12, 34))
	require.NoError(t, unix.Setxattr(at("usr/bin/ping"), "security.capability", []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0))
	testfile.WriteMode(t, r.Image+"/usr/bin/su", "\x7fELF", 0o4755)
	require.NoError(t, unix.Chmod(at("usr/bin/su"), 0o4755))
	require.NoError(t, os.Link(at("usr/bin/su"), at("usr/bin/su-again")))
	require.NoError(t, os.Link(at("usr/bin/su"), at("etc/su-elsewhere")))
	require.NoError(t, unix.Mknod(at("usr/pipe"), unix.S_IFIFO|0o640, 0))
	require.NoError(t, unix.Mknod(at("usr/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	require.NoError(t, os.Lchown(at("lib"), 7, 8))
	require.NoError(t, os.Chmod(at("tmp"), os.ModeSticky|0o777))
	require.NoError(t, os.Chtimes(at("etc"), time.Unix(1, 5), time.Unix(1, 5)))
	testfile.WriteMode(t, r.Image+"/usr/big", string(bytes.Repeat([]byte("0123456789abcdef"), 1<<17)), 0o600)
	volume := at("etc/hosts")
	require.NoError(t, unix.Mount("/dev/null", volume, "", unix.MS_BIND, "")) // the runtime's files cover the image's
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	require.NoError(t, unix.Mount("proc", at("proc"), "proc", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(at("proc"), unix.MNT_DETACH) })

	dir, log := stageLog(t, r)
	require.NoError(t, unix.Unmount(volume, 0))
	require.NoError(t, unix.Unmount(at("proc"), 0))
	want, got := describe(t, r.Image), describe(t, dir)
	for name := range want {
		top, _, _ := strings.Cut(name, "/")
		gone := top == "dev" || top == "sys" || (top != name && (top == "run" || top == "tmp"))
		for _, dir := range []string{"usr/lib/gcc", "usr/share/doc", "usr/share/man"} {
			gone = gone || mounttable.AtOrBelow(name, dir)
		}
		if gone || name == "var/cache/apt" {
			delete(want, name)
		}
	}
	delete(got, markerPath)
	for _, dir := range append(submounts(), ".", "run", filepath.Dir(markerPath)) { // changed by Stage itself
		delete(got, dir)
		delete(want, dir)
	}
	assert.Same(t, want, got)
	assert.Equal(t, filepath.Join(r.Storage, "roots", testVersion+"-0123456789ab"), dir)
	assert.Contains(t, log, logtest.Staged+dir)
}

func TestStageReusesWhatIsComplete(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	dir := require.Value(r.Stage(t.Context(), nil))(t)
	require.NoError(t, os.Remove(filepath.Join(r.Image, "usr/bin/nvidia-smi"))) // is not checked again
	assert.Equalf(t, true, reused(t, r), "the second time")
	testfile.WriteMode(t, r.Image+"/usr/bin/nvidia-smi", "\x7fELF smi", 0o755)
	testfile.Write(t, dir+"/usr/lib/x86_64-linux-gnu/libcuda.so."+testVersion, "short")
	require.NoError(t, r.Mount(t.Context(), staged(t, r)))
	adoptable(t, r, "libcuda")
	assert.Equalf(t, false, reused(t, r), "after damage")
	if names := testfile.List(t, filepath.Dir(dir)); len(names) != 2 { // the damaged one is mounted: kept
		t.Errorf("roots: %q", names)
	}
	require.NoError(t, r.prune(t.Context(), 0, nil))
	assert.Equalf(t, 2, len(testfile.List(t, filepath.Dir(dir))), "pruned what is mounted")
	require.NoError(t, r.Unmount(t.Context()))
	require.NoError(t, r.prune(t.Context(), 0, nil))
	assert.Same(t, []string{filepath.Base(dir)}, testfile.List(t, filepath.Dir(dir)))
	testfile.Write(t, filepath.Join(dir, markerPath), "{")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, assert.Err(r.Stage(canceled, nil)), context.Canceled)
	require.NoErrorf(t, assert.Err(os.Stat(dir+"/usr/bin/nvidia-smi")), "a root whose marker is damaged stays until another stands")
}

// A pod that mounts the driver root without propagation keeps the root of its start: it stays until the pod ends,
// also where the pod has only one file of it.
func TestPruneKeepsRootsOfPods(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	old := *r
	old.ID = "ffff" + testID[4:]
	for _, part := range []string{"", "/usr/bin/nvidia-smi"} {
		dir := require.Value(old.Stage(t.Context(), nil))(t)
		require.Value(r.Stage(t.Context(), nil))(t)
		at := filepath.Join(t.TempDir(), "at")
		if part == "" {
			require.NoError(t, os.Mkdir(at, 0o755))
		} else {
			testfile.Write(t, at, "")
		}
		pod := exec.Command("sh", "-c", `mount --bind "$1" "$2" && echo mounted && exec cat`, "sh", dir+part, at) //nolint:noctx // ends with its input
		pod.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		input := require.Value(pod.StdinPipe())(t)
		output := require.Value(pod.StdoutPipe())(t)
		require.NoError(t, pod.Start())
		_, err := io.ReadFull(output, make([]byte, len("mounted\n")))
		require.NoError(t, err)
		require.NoError(t, r.prune(t.Context(), 0, nil))
		require.Value(os.Stat(filepath.Join(dir, "usr/bin/nvidia-smi")))(t)
		require.NoError(t, input.Close())
		require.NoError(t, pod.Wait())
		require.NoError(t, r.prune(t.Context(), 0, nil))
		_, err = os.Stat(dir)
		assert.ErrorIsf(t, err, fs.ErrNotExist, "the root of a pod that has ended")
	}
}

// On a full disk a damaged root is staged again in the place of roots that nobody mounts; preflight knows how much that
// gives. If that is not enough, nothing is left.
func TestStageMakesRoom(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	testfile.Write(t, r.Image+"/usr/lib/big", strings.Repeat("x", 3<<20))
	require.NoError(t, os.MkdirAll(r.Storage, 0o755))
	require.NoError(t, unix.Mount("small", r.Storage, "tmpfs", 0, "size=10m"))
	t.Cleanup(func() { _ = unix.Unmount(r.Storage, unix.MNT_DETACH) })
	need, spare := r.Room()
	if need.Bytes < 3<<20 || need.Bytes > 4<<20 || spare != (Space{}) {
		t.Errorf("an empty disk: %v, %v", need, spare)
	}
	served := *r
	served.ID = "f" + testID[1:]
	mounted(t, &served)
	dir := require.Value(r.Stage(t.Context(), nil))(t)
	made := len(describe(t, dir))
	if need.Inodes < uint64(made)-20 || need.Inodes > uint64(made)+20 {
		t.Errorf("the root has %d files, folders and links; Room said %d", made, need.Inodes)
	}
	if need, spare := r.Room(); need != (Space{}) || spare != (Space{}) {
		t.Errorf("staged: %v, %v", need, spare)
	}
	testfile.Write(t, dir+"/usr/bin/nvidia-smi", "damaged")
	assert.ErrorIsf(t, os.WriteFile(r.Storage+"/filling", make([]byte, 10<<20), 0o600), unix.ENOSPC, "fill the disk")
	if need, spare := r.Room(); need.Bytes < 3<<20 || spare.Bytes < 3<<20 || spare.Bytes > 4<<20 || spare.Inodes == 0 {
		t.Errorf("full: %v, %v", need, spare)
	}
	assert.Equalf(t, false, reused(t, r), "the damaged root is used")
	assert.Equalf(t, 2, len(testfile.List(t, filepath.Join(r.Storage, rootsDir))), "the root that is mounted, and ours")
	testfile.Write(t, r.Image+"/usr/lib/bigger", strings.Repeat("x", 8<<20))
	r.ID = "e" + testID[1:]
	err := assert.Err(r.Stage(t.Context(), nil))
	assert.ErrorIs(t, err, unix.ENOSPC)
	assert.ErrorContains(t, err, "make room")
	assert.Same(t, []string{testVersion + "-f123456789ab"}, testfile.List(t, filepath.Join(r.Storage, rootsDir)))
	require.NoError(t, r.Unmount(t.Context()))
}

// What is no folder at the target is left alone, and nothing that it leads to is taken for ours.
func TestForeignTarget(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	for kind, put := range map[string]func(path string) error{
		"a file":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a link to /": func(path string) error { return os.Symlink("/", path) },
	} {
		r := testRoot(t)
		require.NoError(t, put(r.Target))
		before := require.Value(mounttable.Read(nil))(t)
		assert.Equalf(t, 0, len(require.Value(r.mounts())(t)), "%s: mounts", kind)
		require.NoError(t, r.Unmount(t.Context()))
		require.Value(r.Stage(t.Context(), nil))(t)
		assert.ErrorContains(t, r.Mount(t.Context(), staged(t, r)), "is no folder of a driver container")
		assert.Samef(t, before, require.Value(mounttable.Read(nil))(t), "%s", kind)
	}
}

// A start that is stopped leaves nothing, and what a killed one left never had the final name, and goes. The storage may be in the image.
func TestStageStops(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("SIGTERM")
	cancel(why)
	r.Storage = filepath.Join(r.Image, "var/lib/nvidia-driver")
	roots := filepath.Join(r.Storage, rootsDir)
	testfile.Write(t, roots+"/"+tmpPrefix+"killed/usr/bin/nvidia-smi", "half of it")
	assert.ErrorIs(t, assert.Err(r.Stage(ctx, nil)), why)
	assert.Equalf(t, 0, len(testfile.List(t, roots)), "left")
	testfile.Write(t, roots+"/"+tmpPrefix+"killed/usr/bin/nvidia-smi", "half of it")
	dir := require.Value(r.Stage(t.Context(), nil))(t)
	assert.Same(t, []string{filepath.Base(dir)}, testfile.List(t, roots))
	assert.Errorf(t, assert.Err(os.Stat(filepath.Join(dir, "var/lib/nvidia-driver"))), "the storage was copied into itself")
}

func TestStageRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Root{
		"a version that is a path": {Version: "../x", ID: testID, Storage: "/nowhere"},
		"no identity":              {Version: testVersion, Storage: "/nowhere"},
	} {
		assert.Errorf(t, assert.Err(r.Stage(t.Context(), nil)), "%s: accepted", name)
	}
	r := &Root{Version: testVersion, ID: testID, Image: "/x", Log: logtest.New(t)}
	if dir, err := r.Stage(t.Context(), nil); err != nil || dir != "" {
		t.Errorf("without storage: %s, %+v, %v", dir, r, err)
	}
}

func TestPruneNeverEntersMounts(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	old := *r
	old.ID = "ffff" + testID[4:]
	dir := require.Value(old.Stage(t.Context(), nil))(t)
	require.Value(r.Stage(t.Context(), nil))(t)
	precious := t.TempDir()
	testfile.WriteMode(t, precious+"/nvme0n1", "host's disk", 0o600)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dev"), 0o755))
	require.NoError(t, unix.Mount(precious, filepath.Join(dir, "dev"), "", unix.MS_BIND, ""))
	require.NoError(t, r.prune(t.Context(), 0, nil))
	require.Value(os.Stat(filepath.Join(precious, "nvme0n1")))(t)
	require.NoError(t, unix.Unmount(filepath.Join(dir, "dev"), 0))
	require.NoError(t, r.prune(t.Context(), 1, nil))
	assert.Equalf(t, 2, len(testfile.List(t, filepath.Dir(dir))), "roots")
	require.NoError(t, r.prune(t.Context(), 0, []string{dir + "/usr/share/nvidia-driver/modules/x/nvidia.ko"}))
	assert.Equalf(t, 2, len(testfile.List(t, filepath.Dir(dir))), "roots, of which one has a module for the way back")
	for n := range keepRoots { // with the first, one too many
		more := *r
		more.ID = fmt.Sprintf("eee%d", n) + testID[4:]
		require.Value(more.Stage(t.Context(), nil))(t)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, r.Prune(stopped, nil))
	assert.Equalf(t, keepRoots+2, len(testfile.List(t, filepath.Dir(dir))), "a stop does not wait: roots")
	require.NoError(t, r.Prune(t.Context(), nil))
	assert.Equalf(t, keepRoots+1, len(testfile.List(t, filepath.Dir(dir))), "roots")
	require.NoError(t, r.prune(t.Context(), 0, nil))
	assert.Equalf(t, 1, len(testfile.List(t, filepath.Dir(dir))), "roots")
	require.NoErrorf(t, r.Remove(dir), "a root that is not there")
	// Mounted before it: all stays. After the list of mounts was read: the mount point and what is mounted there stay.
	late := filepath.Join(t.TempDir(), "late")
	testfile.Write(t, late+"/usr/lib/libcuda.so", "x")
	require.NoError(t, os.Mkdir(filepath.Join(late, "dev"), 0o755))
	require.NoError(t, unix.Mount(precious, filepath.Join(late, "dev"), "", unix.MS_BIND, ""))
	assert.ErrorContains(t, r.removeTree(late), "umount "+late+"/dev")
	require.Value(os.Stat(late + "/usr/lib/libcuda.so"))(t)
	assert.ErrorIsf(t, r.removeBare(late), unix.EBUSY, "removed a mount point")
	require.Value(os.Stat(filepath.Join(precious, "nvme0n1")))(t)
	require.NoError(t, unix.Unmount(filepath.Join(late, "dev"), 0))
}

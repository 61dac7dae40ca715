package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestRemove: folders that a step made unreadable, deeper than a path can name, with links out of them.
func TestRemove(t *testing.T) {
	t.Parallel()
	work, outside := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(outside, []byte("x"), 0o600))
	f, err := New(work, "step-")
	require.NoError(t, err)
	root := require.Value(os.OpenRoot(f.Path))(t)
	for _, d := range []string{"a/b/c", "locked/inner/more", "gone-1/x"} {
		require.NoError(t, root.MkdirAll(d, 0o755))
	}
	err = errors.Join(root.Symlink(filepath.Dir(outside), "a/out"), root.Symlink("../../../..", "a/up"), root.Symlink("/", "gone-2"),
		root.Link("a/out", "hard"), unix.Mkfifo(filepath.Join(root.Name(), "fifo"), 0o600),
		root.WriteFile("locked/inner/file", nil, 0), root.Chmod("locked/inner", 0), root.Chmod("locked", 0o100))
	require.NoError(t, err)
	deep(t, root, 700)
	for i := range 1100 {
		require.NoError(t, root.WriteFile(fmt.Sprint("a/b/", i), nil, 0o400))
	}
	root.Close()
	require.NoError(t, f.Remove())
	if list, _ := os.ReadDir(work); len(list) > 0 {
		t.Errorf("left: %v", list)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("outside of the root: %v", err)
	}
}

// deep creates nested folders until no path can name the last one.
func deep(t *testing.T, root *os.Root, levels int) {
	t.Helper()
	at, err := root.OpenRoot(".")
	for range levels {
		if err == nil {
			err = at.Mkdir("deeper", 0o755)
		}
		if err != nil {
			break
		}
		var next *os.Root
		next, err = at.OpenRoot("deeper")
		at.Close()
		at = next
	}
	require.NoError(t, err)
	at.Close()
}

// TestRemoveInterrupted: the next removal completes one that was killed.
func TestRemoveInterrupted(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	for _, d := range []string{"step-1/gone-1/x/y", "step-1/gone-2/z", "step-1/root/a/b/c", "step-1/root/gone-1/w", "other/kept"} {
		require.NoError(t, os.MkdirAll(filepath.Join(work, d), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(work, "step-file"), nil, 0o600))
	require.NoError(t, Sweep(work, "step-"))
	list, err := filepath.Glob(filepath.Join(work, "*"))
	if err != nil || strings.Join(list, " ") != filepath.Join(work, "other")+" "+filepath.Join(work, "step-file") {
		t.Errorf("%q, %v", list, err)
	}
}

// TestRemoveStopsAtMounts: another program mounted something in a root that was left behind. The removal must
// not touch it.
func TestRemoveStopsAtMounts(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "it mounts")
	work, other := t.TempDir(), t.TempDir()
	precious := filepath.Join(other, "precious")
	at := filepath.Join(work, "step-1/root/a/mnt")
	require.NoError(t, errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(precious, nil, 0o600)))
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Skip("mount: ", err)
	}
	// The mount may have moved with the folder that it is in.
	err := Sweep(work, "step-")
	points, globErr := filepath.Glob(filepath.Join(work, "step-1/*/mnt"))
	more, _ := filepath.Glob(filepath.Join(work, "step-1/*/*/mnt"))
	for _, p := range append(points, more...) {
		assert.NoError(t, unix.Unmount(p, 0))
	}
	if err == nil || globErr != nil {
		t.Error("a mount point was removed")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	assert.NoError(t, Sweep(work, "step-"))
}

// TestLocks: a folder with an owner stays.
func TestLocks(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	f := require.Value(New(work, "step-"))(t)
	require.NoError(t, Sweep(work, "step-"))
	if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	assert.NoError(t, f.Remove())
	assert.Errorf(t, assert.Err(takeLock(f.parent, f.name)), "a lock on nothing")
}

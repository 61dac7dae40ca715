package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	for _, d := range []string{"a/b/c", "locked/inner/more", "a/\xff"} {
		require.NoError(t, root.MkdirAll(d, 0o755))
	}
	err = errors.Join(root.Symlink(filepath.Dir(outside), "a/out"), root.Symlink("../../../..", "a/up"),
		root.Link("a/out", "hard"), root.WriteFile("a/\xff/x", nil, 0o600), unix.Mkfifo(filepath.Join(root.Name(), "fifo"), 0o600),
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
	assert.ErrorIs(t, Sweep(work, "step-"), unix.EBUSY)
	assert.NoError(t, unix.Unmount(at, 0))
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	assert.NoError(t, Sweep(work, "step-"))
}

// TestLocks: a folder with an owner stays, and so does what has another name or is a file.
func TestLocks(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Join(work, "step-1/a"), 0o755), os.Mkdir(filepath.Join(work, "other"), 0o755),
		os.WriteFile(filepath.Join(work, "step-file"), nil, 0o600)))
	f := require.Value(New(work, "step-"))(t)
	require.NoError(t, Sweep(work, "step-"))
	list := require.Value(filepath.Glob(filepath.Join(work, "*")))(t)
	assert.Same(t, []string{filepath.Join(work, "other"), f.Path, filepath.Join(work, "step-file")}, list)
	if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	assert.NoError(t, f.Remove())
	assert.Errorf(t, assert.Err(takeLock(f.parent, f.name)), "a lock on nothing")
}

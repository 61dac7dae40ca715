package outfile

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestDead: the file of a process that was killed goes with the next Write of the name, at once; that of a running one stays.
func TestDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tar")
	dead := testfile.Write(t, filepath.Join(dir, ".x.tar.tmp-1"), "half")
	other := testfile.Write(t, filepath.Join(dir, ".y.tar.tmp-1"), "of another name")
	checked := testfile.Write(t, filepath.Join(dir, ".driver-build.tmp-1"), "")
	running := require.Value(createLocked(dir, tmpPrefix(path)))(t)
	require.NoError(t, Check(path))
	require.NoError(t, Write(t.Context(), path, text("whole")))
	assert.ErrorIs(t, assert.Err(os.Lstat(dead)), os.ErrNotExist)
	assert.ErrorIs(t, assert.Err(os.Lstat(checked)), os.ErrNotExist)
	assert.NoError(t, assert.Err(os.Lstat(other)))
	assert.NoError(t, assert.Err(os.Lstat(running.Name())))
	require.NoError(t, running.Close())
	Sweep(dir, ".")
	assert.NoError(t, assert.Err(os.Lstat(path)))
	left := require.Value(filepath.Glob(filepath.Join(dir, ".*")))(t)
	assert.Equalf(t, 0, len(left), "%v", left)
}

// TestSweepers: many writers of one name, each of which sweeps, take no file away from each other.
func TestSweepers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 100 {
				assert.NoError(t, Replace(path, func(w io.Writer) error { return text("whole")(w) }))
				assert.NoError(t, Check(path))
			}
		})
	}
	writers.Wait()
	assert.Equal(t, "whole", content(t, path))
}

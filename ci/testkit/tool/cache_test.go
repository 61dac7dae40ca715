package tool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	dir, made := filepath.Join(t.TempDir(), "x"), 0
	build := func(partial string) error {
		made++
		testfile.Write(t, partial+"/file", "text")
		return nil
	}
	for range 2 {
		require.NoError(t, Once(dir, build))
	}
	err := Once(filepath.Join(filepath.Dir(dir), "y"), func(partial string) error { testfile.Write(t, partial, ""); return os.ErrInvalid })
	assert.ErrorIs(t, err, os.ErrInvalid)
	assert.Equalf(t, 1, made, "made")
	assert.Same(t, []string{".lock-x", ".lock-y", "x"}, testfile.List(t, filepath.Dir(dir)))
}

func TestPruneKeepsNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpack := func(partial string) error {
		old := time.Now().Add(-1000 * time.Hour)
		testfile.Write(t, partial+"/file", "text")
		return os.Chtimes(partial, old, old)
	}
	require.NoError(t, Once(dir+"/thing-new", unpack))
	require.NoError(t, Prune(dir+"/thing-*", 0, time.Hour))
	assert.Same(t, []string{".lock-thing-new", "thing-new"}, testfile.List(t, dir))
}

func TestPrune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, hours := range map[string]time.Duration{"thing-a": 9, "thing-b": 8, "thing-c": 7, "thing-d": 1, "thing-e": 6, "other": 99, ".partial-x": 99, ".partial-y": 1, ".lock-x": 99} {
		at := time.Now().Add(-hours * time.Hour)
		require.NoError(t, os.Chtimes(testfile.Write(t, dir+"/"+name+"/", ""), at, at))
	}
	require.NoError(t, Prune(dir+"/thing-*", 3, 7*time.Hour+time.Minute))
	assert.Same(t, []string{".lock-x", ".partial-y", "other", "thing-c", "thing-d", "thing-e"}, testfile.List(t, dir))
	require.NoError(t, Prune(dir+"/thing-*", 0, 3*time.Hour))
	assert.Same(t, []string{".lock-x", ".partial-y", "other", "thing-d"}, testfile.List(t, dir))
}

func TestKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	seen := map[string]bool{}
	for i, change := range []func() error{
		func() error { return os.WriteFile(file, []byte("1"), 0o644) },
		func() error { return os.WriteFile(file, []byte("2"), 0o644) },
		func() error { return os.Chmod(file, 0o755) },
		func() error { return os.Rename(file, file+"2") },
	} {
		require.NoError(t, change())
		seen[require.Value(CacheKey([]string{"a"}, dir))(t)] = true
		assert.Equalf(t, i+1, len(seen), "change %d changed nothing", i)
	}
	assert.Equalf(t, false, require.Value(CacheKey([]string{"ab", "c"}))(t) == require.Value(CacheKey([]string{"a", "bc"}))(t), "texts run into each other")
}

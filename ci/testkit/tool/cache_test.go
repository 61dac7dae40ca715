package tool

import (
	"os"
	"path/filepath"
	"slices"
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

// TestCached: the entries of a prefix that were used last are kept, and those of the last hours; an entry of old
// files is new.
func TestCached(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, hours := range map[string]time.Duration{"thing-a": 9, "thing-b": 8, "thing-c": 7, "thing-x": 9, "other": 99, ".partial-x": 99, ".partial-y": 1, ".lock-x": 99} {
		at := time.Now().Add(-hours * time.Hour)
		require.NoError(t, os.Chtimes(testfile.Write(t, dir+"/"+name+"/", ""), at, at))
	}
	unpack := func(partial string) error {
		old := time.Now().Add(-1000 * time.Hour)
		testfile.Write(t, partial+"/file", "text")
		return os.Chtimes(partial, old, old)
	}
	var made []string
	for _, text := range []string{"1", "2", "3"} {
		name := filepath.Base(Cached(t, dir, "thing-", unpack, []string{text}))
		made = append(made, ".lock-"+name, name)
		if text == "1" {
			assert.Equal(t, 2, len(require.Value(filepath.Glob(dir+"/thing-[0-9a-f]*"))(t)))
		}
	}
	want := append(made, ".lock-x", ".partial-y", "other", "thing-x")
	slices.Sort(want)
	assert.Same(t, want, testfile.List(t, dir))
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

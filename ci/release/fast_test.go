package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/version"
)

// TestArchive: an archive depends on names, contents and the one time, and not on the files' own times.
func TestArchive(t *testing.T) {
	t.Parallel()
	var sums []string
	for range 2 {
		dir := t.TempDir()
		a := testfile.Write(t, filepath.Join(dir, "a"), "program")
		require.NoError(t, stage(filepath.Join(dir, "x"), []member{{"a", a, 0o755}, {"man/a.1", a, 0o644}}))
		require.NoError(t, os.Chtimes(filepath.Join(dir, "x/a"), time.Now(), time.Now().Add(-time.Duration(len(sums)+1)*time.Hour)))
		out := filepath.Join(dir, "x.tar.gz")
		require.NoError(t, pack(t.Context(), source{time: time.Unix(1_800_000_000, 0)}, dir, out, "x"))
		sums = append(sums, require.Value(digest(out))(t))
		list := require.Value(output(t.Context(), dir, "tar", "-tvzf", out))(t)
		for _, want := range []string{"-rwxr-xr-x root/root", " x/a\n", "-rw-r--r-- root/root", " x/man/a.1"} {
			assert.Contains(t, list, want)
		}
	}
	assert.Equal(t, sums[0], sums[1])
}

// TestTagged: the version of a release is the tag, and the tag is that of the tree.
func TestTagged(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		require.Value(output(t.Context(), repo, append([]string{"git", "-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...))(t)
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "first")
	const commit = "3a47e98f4e5c00112233445566778899aabbccdd"
	assert.Equal(t, version.Development+".g3a47e98f4e5c", require.Value(tagged(t.Context(), repo, commit))(t))
	git("tag", version.Tree)
	assert.Equal(t, version.Tree, require.Value(tagged(t.Context(), repo, commit))(t))
	git("tag", "-d", version.Tree)
	git("tag", "v9.9.9")
	assert.ErrorContains(t, assert.Err(tagged(t.Context(), repo, commit)), "the tag is v9.9.9", "version/version.go says "+version.Tree)
}

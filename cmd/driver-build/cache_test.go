package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

// TestCache: the parts of the cache have a size, prune takes nothing that was used lately, and what it took is made again
// with the same digest. The cache of an earlier version is named, and its downloads are used.
func TestCache(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := []string{"--os", "debian12", "--driver", newDriver, "--output"}
	first := u.Run(t, append(target, "oci:"+u.Path("a"))...).Want(t, 0)
	u.Run(t, "cache").Want(t, 0)
	sizes := map[string]int64{}
	for _, k := range commandtest.Items[fetch.Kind](t, u.Run(t, "cache", "-o", "json"), "cache.schema.json") {
		sizes[k.Name] = k.Bytes
	}
	for _, kind := range []string{"layer", "download", "document", "base", "keys"} {
		assert.Equalf(t, true, sizes[kind] > 0, "%s: %v", kind, sizes)
	}
	assert.Equal(t, "0 files removed, 0.0 MiB\n", u.Run(t, "cache", "prune", "--keep-days", "2").Stdout)
	old := time.Now().Add(-72 * time.Hour)
	for _, pattern := range []string{"keys/*", "blobs/sha256/*"} {
		for _, file := range require.Value(filepath.Glob(filepath.Join(u.Cache, pattern)))(t) {
			require.NoError(t, os.Chtimes(file, old, old))
		}
	}
	u.Run(t, "cache", "prune", "--keep-days", "2").Want(t, 0)
	assert.Equal(t, 0, len(require.Value(filepath.Glob(filepath.Join(u.Cache, "blobs/sha256/*")))(t)))
	require.NoError(t, os.Mkdir(filepath.Join(u.Cache, "layers"), 0o700))
	again := u.Run(t, append(target, "oci:"+u.Path("b"))...).Want(t, 0, "earlier version")
	assert.Equal(t, first.Digest(t), again.Digest(t))
	u.Run(t, "cache", "prune", "--keep-days", "0").Want(t, 2, "one day or more")
	u.Run(t, "cache", "-o", "xml").Want(t, 2)
}

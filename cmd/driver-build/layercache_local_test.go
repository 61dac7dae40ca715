package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

// TestDamagedEntries: whatever happens between two builds to what the cache has, the next build makes the
// same image, or sets aside what is damaged, and the build after it makes the same image.
func TestDamagedEntries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files  string
		damage func([]byte) []byte
	}{
		"blobs, a bit":      {"blobs/sha256/*", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"blobs, empty":      {"blobs/sha256/*", func([]byte) []byte { return nil }},
		"blobs, longer":     {"blobs/sha256/*", func(b []byte) []byte { return append(b, 0) }},
		"blobs, zeros":      {"blobs/sha256/*", func(b []byte) []byte { return make([]byte, len(b)) }},
		"records, empty":    {"keys/layer-*", func([]byte) []byte { return nil }},
		"records, cut":      {"keys/layer-*", func(b []byte) []byte { return b[:len(b)/2] }},
		"records, zeros":    {"keys/layer-*", func(b []byte) []byte { return make([]byte, len(b)) }},
		"records, a digest": {"keys/layer-*", func(b []byte) []byte { return flip(b, `"digest":"sha256:`) }},
		"records, content":  {"keys/layer-*", func(b []byte) []byte { return flip(b, `"diffID":"sha256:`) }},
		"records, size":     {"keys/layer-*", func(b []byte) []byte { return flip(b, `"size":`) }},
		"records, type":     {"keys/layer-*", func(b []byte) []byte { return bytes.Replace(b, []byte("gzip"), []byte("zstd"), 1) }},
		"plans, a bit":      {"keys/plan-*", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"bases, a bit":      {"keys/base-*", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			target := []string{"--os", "debian12", "--driver", newDriver, "--output"}
			first := u.Run(t, append(target, "oci:"+u.Path("a"))...).Want(t, 0)
			files := require.Value(filepath.Glob(filepath.Join(u.Cache, c.files)))(t)
			assert.Equalf(t, true, len(files) > 0, "files %s", c.files)
			for _, file := range files {
				raw := require.Value(os.ReadFile(file))(t)
				require.NoError(t, os.Chmod(file, 0o644))
				require.NoError(t, os.WriteFile(file, c.damage(raw), 0o644))
			}
			r := u.Run(t, append(target, "oci:"+u.Path("b"))...)
			if r.Code != 0 {
				r.Want(t, 5, "files of the cache were damaged on the disk and are removed: run the same command again")
				r = u.Run(t, append(target, "oci:"+u.Path("b"))...)
			}
			r.Want(t, 0)
			assert.Equalf(t, first.Digest(t), r.Digest(t), "%s", r.Stderr)
			u.Run(t, "verify", "oci:"+u.Path("b")).Want(t, 0)
		})
	}
}

// flip changes the character that follows some text.
func flip(b []byte, after string) []byte {
	at := bytes.Index(b, []byte(after)) + len(after)
	if b[at] == '1' {
		b[at] = '2'
	} else {
		b[at] = '1'
	}
	return b
}

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
}

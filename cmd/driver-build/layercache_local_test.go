package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
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

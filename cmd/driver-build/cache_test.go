package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/fetch"
)

// TestDamagedEntries: whatever happens between two builds to what the cache has, the next build makes the
// same image, or sets aside what is damaged, and the build after it makes the same image.
func TestDamagedEntries(t *testing.T) {
	t.Parallel()
	whole := newUser(t)
	target := []string{"--os", "debian12", "--driver", newDriver, "--output"}
	first := whole.Run(t, append(target, "oci:"+whole.Path("a"))...).Want(t, 0)
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
		// made again, because the layers are made again
		"packages, a bit": {"blobs/sha256/* keys/layer-*", func(b []byte) []byte {
			switch {
			case bytes.HasPrefix(b, []byte("!<arch>")):
				b[len(b)/2] ^= 1
			case bytes.Contains(b, []byte(`"diffID"`)):
				return nil
			}
			return b
		}},
		"bases, a bit": {"keys/base-*", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := whole.fresh(t)
			require.NoError(t, os.CopyFS(u.Cache, os.DirFS(whole.Cache)))
			var files []string
			for pattern := range strings.FieldsSeq(c.files) {
				files = append(files, require.Value(filepath.Glob(filepath.Join(u.Cache, pattern)))(t)...)
			}
			assert.Equalf(t, true, len(files) > 0, "files %s", c.files)
			for _, file := range files {
				require.NoError(t, os.Chmod(file, 0o644))
				testfile.Write(t, file, string(c.damage([]byte(testfile.Read(t, file)))))
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
// with the same digest.
func TestCache(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := []string{"--os", "debian12", "--driver", newDriver, "--output"}
	first := u.Run(t, append(target, "oci:"+u.Path("a"))...).Want(t, 0)
	u.Run(t, "cache").Want(t, 0)
	sizes := map[string]int64{}
	for _, k := range commandtest.Items[fetch.Usage](t, u.Run(t, "cache", "-o", "json"), "cache.schema.json") {
		sizes[k.Kind] = k.Bytes
	}
	for _, kind := range []string{"layer", "download", "document", "base", "plan", "libraries", "keys"} {
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
	again := u.Run(t, append(target, "oci:"+u.Path("b"))...).Want(t, 0)
	assert.Equal(t, first.Digest(t), again.Digest(t))
}

// layersIn are the digests of an image's layers in a registry, by their names.
func (u *user) layersIn(t *testing.T, ref string) map[string]string {
	t.Helper()
	r := u.Run(t, "inspect", ref, "-o", "json").Want(t, 0)
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`"digest": "(sha256:[0-9a-f]{64})",[^}]*"createdBy": "([^"]*)"`).FindAllStringSubmatch(r.Stdout, -1) {
		_, name, _ := strings.Cut(m[2], ": ")
		all[name] = m[1]
	}
	return all
}

// TestRealDamage: whatever happens to a layer on the disk of Debian's docker-registry, a build that writes to
// this machine has the right image. A build that pushes sends again what the registry lost.
func TestRealDamage(t *testing.T) {
	t.Parallel()
	d, u := imagetest.NewDistribution(t), newUser(t)
	repository := d.Host + "/team/driver"
	args := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	push := append(args, "--push", "--repository", repository, "--sbom")
	first := u.Run(t, push...).Want(t, 0)
	layers := u.layersIn(t, repository+":535.261.03-ubuntu18.04")
	for name, damage := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] }, "longer": func(b []byte) []byte { return append(b, "more"...) },
		"empty": func([]byte) []byte { return nil }, "another layer": func([]byte) []byte {
			return require.Value(os.ReadFile(d.Blob(layers["entrypoint"])))(t)
		}, "removed": nil,
	} {
		good, parts := map[string][]byte{}, []string{}
		for _, layer := range []string{"packages", "user-mode driver"} {
			file := d.Blob(layers[layer])
			good[file] = require.Value(os.ReadFile(file))(t)
			if damage == nil {
				require.NoError(t, os.Remove(file))
			} else {
				require.NoError(t, os.WriteFile(file, damage(bytes.Clone(good[file])), 0o600))
			}
			parts = append(parts, "the "+layer+" layer is made here, because the registry's copy cannot be used")
		}
		m := u.fresh(t)
		r := m.Run(t, append(args, "--output", "oci:"+m.Path("dist"), "--cache-from", repository)...)
		r.Want(t, 0, parts...)
		assert.Equalf(t, first.Digest(t), r.Digest(t), "%s", name)
		m.Run(t, "verify", "oci:"+m.Path("dist")).Want(t, 0)
		if damage == nil {
			lost := "had lost the blob "
			r := u.fresh(t).Run(t, push...).Want(t, 0, lost+layers["packages"], lost+layers["user-mode driver"])
			assert.Equal(t, first.Stdout, r.Stdout)
			for file, content := range good {
				assert.Equalf(t, true, bytes.Equal(content, require.Value(os.ReadFile(file))(t)), "%s on the registry's disk", file)
			}
			u.fresh(t).Run(t, "verify", repository+":535.261.03-ubuntu18.04").Want(t, 0)
		}
		for file, content := range good {
			require.NoError(t, os.WriteFile(file, content, 0o600))
		}
	}
}

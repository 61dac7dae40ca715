package inputs_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/inputs"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/oci"
)

func written(t *testing.T, name, text string) oci.Blob {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return require.Value(inputs.FromFile(t.Context(), path))(t)
}

// TestThere takes files, downloads and a base image to another machine.
func TestThere(t *testing.T) {
	t.Parallel()
	lock, matrix := written(t, "matrix.lock", "a lock"), written(t, "matrix.yaml", "a matrix")
	cache := filepath.Join(t.TempDir(), "blob")
	require.NoError(t, os.WriteFile(cache, []byte("a package"), 0o600))
	sum, sum512 := sha256.Sum256([]byte("a package")), sha512.Sum512([]byte("a package"))
	bases, files, err := inputs.Fetched(t.Context(), fmt.Sprintf("sha256:%x docker.io/library/debian:12@x\nsha256:%x %s http://a/x.deb\nsha512:%x %s http://a/y.rpm?z\n",
		sum, sum, cache, sum512, cache))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("docker.io/library/debian:12@sha256:%x", sum), bases[0])
	one := require.Value(inputs.Artifact(append(files, lock, matrix, lock)))(t)
	two := require.Value(inputs.Artifact(append([]oci.Blob{matrix, lock}, files...)))(t)
	assert.Equal(t, one.Top().Desc.Digest, two.Top().Desc.Digest)

	artifacts := append(bundletest.Artifacts(t)[3:], writing.Artifact{Kind: bundle.Inputs, Repository: bundletest.Origin + "/inputs", Tags: []string{"debian12"}, Content: one})
	raw := bundletest.Bytes(t, bundletest.Options(), artifacts)
	b := require.Value(reading.Load(bundletest.Source("b.tar", raw)))(t)
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	require.Value(inputs.Adopt(t.Context(), b, store))(t)
	assert.Equal(t, 0, require.Value(inputs.Adopt(t.Context(), b, store))(t))
	base := artifacts[0].Content
	for _, h := range []string{fmt.Sprintf("%x", sum), fmt.Sprintf("%x", sum512), base.Top().Desc.Digest.Hex, base.Blobs[0].Desc.Digest.Hex} {
		assert.Equal(t, true, store.Has(h))
	}
	assert.Equal(t, false, store.Has(lock.Desc.Digest.Hex))
	dir := t.TempDir()
	assert.Equal(t, 2, len(require.Value(inputs.Extract(t.Context(), b, dir))(t)))
	assert.Equal(t, "a lock", string(require.Value(os.ReadFile(filepath.Join(dir, "matrix.lock")))(t)))
}

// TestFolders: a file in folders comes into the same folders, and no path leads out of them.
func TestFolders(t *testing.T) {
	t.Parallel()
	patch := written(t, "x.patch", "a patch")
	for title, good := range map[string]bool{
		"patches/535/x.patch": true, "1/2/3/4/5/6/7/8/x": true, "1/2/3/4/5/6/7/8/9/x": false, "patches/../x": false, "../x": false, "/x": false,
		"patches//x": false, "patches/": false, ".git/x": false, "": false, `a\..\x`: false,
	} {
		patch.Desc.Annotations = map[string]string{inputs.TitleAnnotation: title}
		content := require.Value(inputs.Artifact([]oci.Blob{patch}))(t)
		raw := bundletest.Bytes(t, bundletest.Options(), []writing.Artifact{{Kind: bundle.Inputs, Repository: bundletest.Origin, Content: content}})
		b := require.Value(reading.Load(bundletest.Source("b.tar", raw)))(t)
		dir := filepath.Join(t.TempDir(), "site")
		require.NoError(t, os.Mkdir(dir, 0o700))
		_, err := inputs.Extract(t.Context(), b, dir)
		if !good {
			assert.ErrorIsf(t, err, bundle.ErrUnsound, "%q", title)
			assert.Equalf(t, 0, len(require.Value(os.ReadDir(dir))(t)), "%q", title)
			continue
		}
		require.NoErrorf(t, err, "%q", title)
		assert.Equal(t, "a patch", string(require.Value(os.ReadFile(filepath.Join(dir, title)))(t)))
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, err := inputs.Artifact([]oci.Blob{written(t, "matrix.lock", "one"), written(t, "matrix.lock", "two")})
	assert.ErrorContains(t, err, "have the name matrix.lock")
	assert.ErrorContains(t, assert.Err(inputs.FromFile(t.Context(), t.TempDir())), "is no regular file")
	_, _, err = inputs.Fetched(t.Context(), "what is this")
	assert.Errorf(t, err, "a line of another kind")
	bad := written(t, "x", "y")
	bad.Desc.Annotations["org.opencontainers.image.title"] = "../x"
	content := require.Value(inputs.Artifact([]oci.Blob{bad}))(t)
	raw := bundletest.Bytes(t, bundletest.Options(), []writing.Artifact{{Kind: bundle.Inputs, Repository: bundletest.Origin, Content: content}})
	b := require.Value(reading.Load(bundletest.Source("b.tar", raw)))(t)
	assert.ErrorIs(t, assert.Err(inputs.Extract(t.Context(), b, t.TempDir())), bundle.ErrUnsound)
}

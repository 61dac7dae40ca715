package inputs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/bundletest"
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

// TestThere takes files and a base image into the cache of another machine.
func TestThere(t *testing.T) {
	t.Parallel()
	lock, matrix := written(t, "matrix.lock", "a lock"), written(t, "matrix.yaml", "a matrix")
	one := require.Value(inputs.Artifact([]oci.Blob{lock, matrix, lock}))(t)
	two := require.Value(inputs.Artifact([]oci.Blob{matrix, lock}))(t)
	assert.Equal(t, one.Top().Desc.Digest, two.Top().Desc.Digest)
	artifacts := append(bundletest.Artifacts(t)[3:], writing.Artifact{Kind: bundle.Inputs, Repository: bundletest.Origin + "/inputs", Tags: []string{"debian12"}, Content: one})
	raw := bundletest.Bytes(t, bundletest.Options(), artifacts)
	b := require.Value(reading.Load(bundletest.Source("b.tar", raw)))(t)
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	added := require.Value(inputs.Adopt(t.Context(), b, store))(t)
	assert.Equal(t, 0, require.Value(inputs.Adopt(t.Context(), b, store))(t))
	assert.Equal(t, len(b.List.Blobs)+len(b.List.Documents), added)
	for _, h := range []string{lock.Desc.Digest.Hex, artifacts[0].Content.Top().Desc.Digest.Hex, artifacts[0].Content.Blobs[0].Desc.Digest.Hex} {
		assert.Equal(t, true, store.Has(h))
	}
	stored := require.Value(inputs.Stored(store, "packages/x.deb", lock.Desc.Digest.Hex))(t)
	assert.Equal(t, lock.Desc.Size, stored.Desc.Size)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, err := inputs.Artifact([]oci.Blob{written(t, "matrix.lock", "one"), written(t, "matrix.lock", "two")})
	assert.ErrorContains(t, err, "have the name matrix.lock")
	assert.ErrorContains(t, assert.Err(inputs.FromFile(t.Context(), t.TempDir())), "is no regular file")
}

package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// TestOpenIndex: no image of an index is left out in silence.
func TestOpenIndex(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dist")
	amd64 := imagetest.RandomImage(t, "amd64", 10, "one")
	arm64 := imagetest.RandomImage(t, "arm64", 10, "two")
	require.NoError(t, oci.WriteLayout(t.Context(), dir, "x", imagetest.Index(t, amd64, arm64)))
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	client := require.Value(registry.New(registry.Options{Store: store}))(t)
	_, all, err := Open(t.Context(), client, "oci:"+dir, "")
	assert.NoError(t, err)
	assert.Equal(t, 2, len(all))
	require.NoError(t, os.Remove(filepath.Join(dir, "blobs/sha256", imagetest.Digest(t, arm64).Hex)))
	_, _, err = Open(t.Context(), client, "oci:"+dir, "")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = Open(t.Context(), client, "oci:"+dir, "amd64")
	assert.NoError(t, err)
}

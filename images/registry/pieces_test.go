package registry

import (
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/oci"
)

// TestPieces pushes an image blob by blob, into a second repository by mounting.
func TestPieces(t *testing.T) {
	t.Parallel()
	f, c := newFake(t), client(t)
	content := require.Value(oci.Collect(ocitest.Image(t, "amd64", 100, "one")))(t)
	one, two := f.host()+"/team/one", f.host()+"/team/two"
	for _, b := range content.Blobs {
		assert.Equal(t, false, require.Value(c.HasBlob(t.Context(), one, b.Desc.Digest))(t))
		assert.Equal(t, Done, require.Value(c.PushBlob(t.Context(), one, b))(t))
		assert.Equal(t, Exists, require.Value(c.PushBlob(t.Context(), one, b))(t))
		assert.Equal(t, true, require.Value(c.HasBlob(t.Context(), one, b.Desc.Digest))(t))
		assert.Equal(t, Mounted, require.Value(client(t).PushBlob(t.Context(), two, b, f.host()+"/team/none", one))(t))
	}
	top := content.Top()
	for _, repository := range []string{one, two} {
		assert.Equal(t, false, require.Value(c.HasManifest(t.Context(), repository, "1", top.Desc.Digest))(t))
		require.NoError(t, c.PushManifest(t.Context(), repository, "1", top))
		for _, name := range []string{"1", top.Desc.Digest.String()} {
			assert.Equal(t, true, require.Value(c.HasManifest(t.Context(), repository, name, top.Desc.Digest))(t))
		}
		assert.Equal(t, false, require.Value(c.HasManifest(t.Context(), repository, "1", oci.HashOf(nil)))(t))
	}
	assert.ErrorContains(t, c.PushManifest(t.Context(), one+":1", "1", top), "it has the tag")
}

package layer

import (
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

// A record with a wrong size is no layer, and no reason to remove the blob that it names; damage of the blob is.
func TestDamage(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	digest := require.Value(store.Put([]byte("content")))(t)
	record := Record{Digest: v1.Hash{Algorithm: "sha256", Hex: digest}, Size: 7}
	assert.Equal(t, true, record.isIn(store))
	record.Size = 8
	assert.Equal(t, false, record.isIn(store))
	assert.Equalf(t, true, store.Has(digest), "the blob is there")
	require.NoError(t, os.Chmod(store.Path(digest), 0o644))
	require.NoError(t, os.WriteFile(store.Path(digest), []byte("changed!"), 0o644))
	record.Size = 7
	assert.Equal(t, false, record.isIn(store))
	assert.Equalf(t, false, store.Has(digest), "the blob is gone")
}

package node

import (
	"os"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/node/status"
)

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	set := require.Value((&world{dir: t.TempDir()}).files("cache", v535))(t)
	m := []status.Module{{Name: "nvidia", File: set.Modules[0].Path, SHA256: set.Modules[0].SHA256}}
	assert.NoError(t, checkFiles(m))
	m[0].SHA256 = "00"
	assert.ErrorContains(t, checkFiles(m), "it had 00 when it was verified")
	m[0].File = "/nonexistent"
	assert.ErrorIs(t, checkFiles(m), os.ErrNotExist)
}

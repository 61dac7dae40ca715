package modules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nvidia.ko")
	require.NoError(t, os.WriteFile(file, []byte("abc"), 0o600))
	m := []status.Module{{Name: "nvidia", File: file, SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}
	assert.NoError(t, CheckFiles(m))
	m[0].SHA256 = "00"
	assert.ErrorContains(t, CheckFiles(m), "it had 00 when it was verified")
	m[0].File = "/nonexistent"
	assert.ErrorIs(t, CheckFiles(m), os.ErrNotExist)
}

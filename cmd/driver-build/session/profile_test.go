package session

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// TestProfile: --cpu-profile writes a profile that pprof reads, which is compressed with gzip.
func TestProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profile")
	called := 0
	a := App{profile: file}
	require.NoError(t, a.profiled(func() error { called++; return nil }))
	assert.Equalf(t, 1, called, "calls")
	content := require.Value(os.ReadFile(file))(t)
	assert.Equalf(t, true, bytes.HasPrefix(content, []byte("\x1f\x8b")), "the profile begins as gzip")

	a.profile = filepath.Join(file, "below a file")
	err := a.profiled(func() error { called++; return nil })
	assert.Equalf(t, ExitUsage, ExitCode(err), "exit code of %v", err)
	assert.Equalf(t, 1, called, "calls after a file that cannot be written")
}

package cluster

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// goProgram compiles a program for the guest, in a folder relative to this package.
func goProgram(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(folder))
	require.NoError(t, tool.Build(t.Context(), path, filepath.Join("ci/cluster", folder), "GOARCH=amd64"))
	return path
}

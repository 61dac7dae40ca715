// Package goldentest compares what programs print with files: golden files, which `go test -update`
// writes, JSON schemas of docs/schema, which ci/generate writes, and the manual pages of commands.
package goldentest

import (
	"flag"
	"os"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Compare compares text with a file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := require.Value(os.ReadFile(file))(t)
	assert.Samef(t, string(want), got, "%s (go test -update writes it anew) (-want +got)", file)
}

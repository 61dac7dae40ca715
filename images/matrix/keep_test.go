package matrix

import (
	"bytes"
	"testing"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// FuzzKeep: whatever the text, the result is a matrix, or there is an error.
func FuzzKeep(f *testing.F) {
	f.Add(drivercontainer.Matrix)
	f.Add(bytes.ReplaceAll([]byte(oneSystem+"drivers:\n  - version: 418.87.01\n    archives: {}\n"), []byte("\n"), []byte("\r")))
	f.Fuzz(func(t *testing.T, text []byte) {
		if kept, err := Keep("m", text, []string{"debian12"}, []string{"418.87.01", "535.261.03"}); err == nil {
			require.Value(Parse("m", kept))(t)
		}
	})
}

package matrix

import (
	"bytes"
	"strings"
	"testing"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestKeep: each driver and a system make a matrix, whose rows are those of the whole one.
func TestKeep(t *testing.T) {
	t.Parallel()
	whole := require.Value(Parse("m", drivercontainer.Matrix))(t)
	for i, d := range whole.Drivers {
		sys := whole.Systems[i%len(whole.Systems)]
		text := require.Value(Keep("m", drivercontainer.Matrix, []string{sys.ID}, []string{d.Version}))(t)
		m := require.Value(Parse("m", text))(t)
		assert.Same(t, []Driver{d}, m.Drivers)
		assert.Same(t, []System{sys}, m.Systems)
		assert.Equal(t, false, strings.Contains(string(text), "\n\n\n"))
	}
}

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

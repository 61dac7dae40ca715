package edit

import (
	"strings"
	"testing"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestKeep: each driver and a system make a matrix, whose rows are those of the whole one.
func TestKeep(t *testing.T) {
	t.Parallel()
	whole := require.Value(matrix.Parse("m", drivercontainer.Matrix))(t)
	for i, d := range whole.Drivers {
		sys := whole.Systems[i%len(whole.Systems)]
		text := require.Value(Keep("m", drivercontainer.Matrix, []string{sys.ID}, []string{d.Version}))(t)
		m := require.Value(matrix.Parse("m", text))(t)
		assert.Same(t, []matrix.Driver{d}, m.Drivers)
		assert.Same(t, []matrix.System{sys}, m.Systems)
		assert.Equal(t, false, strings.Contains(string(text), "\n\n\n"))
	}
}

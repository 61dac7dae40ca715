package advisory

import (
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/releases"
)

// TestWith: the table knows the ends of life; the matrix may say otherwise.
func TestWith(t *testing.T) {
	t.Parallel()
	stated := driverinfo.Advisory{ID: "contract", Kind: driverinfo.EndOfLife, Until: "2029-12", Source: "our contract"}
	fault := driverinfo.Advisory{ID: "x", Kind: driverinfo.KnownBad, Reason: "r", Source: "s"}
	got := With("535.309.01", []driverinfo.Advisory{fault})
	assert.Same(t, []driverinfo.Advisory{fault, {ID: "end-of-life-r535", Kind: driverinfo.EndOfLife, Until: "2026-06", Source: "NVIDIA, supported drivers, edition with R610"}}, got)
	assert.Same(t, []driverinfo.Advisory{stated}, With("535.309.01", []driverinfo.Advisory{stated}))
	assert.Same(t, []driverinfo.Advisory{{ID: "end-of-life-r396", Kind: driverinfo.EndOfLife, Source: "no release for years, NVIDIA/nvidia-installer"}}, With("396.54", nil))
	assert.Equal(t, 0, len(With("615.71.09", nil))) // no end is known
	assert.Equal(t, 0, len(With("999.1", nil)))
}

// TestTable: each end of life of the table can be written into an image.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, b := range require.Value(releases.Builtin())(t).Branches {
		for _, a := range With(b.Name[1:]+".1", nil) {
			assert.Equalf(t, "", a.Check(), "%s", b.Name)
		}
	}
}

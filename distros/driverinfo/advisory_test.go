package driverinfo

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestAdvisoryByDay: an end of life is a warning when its month is over, and worth a line six months before.
func TestAdvisoryByDay(t *testing.T) {
	t.Parallel()
	eol := Advisory{ID: "end-of-life-r535", Kind: EndOfLife, Until: "2026-06", Source: "NVIDIA"}
	over := Advisory{ID: "end-of-life-r396", Kind: EndOfLife, Source: "tags"}
	fault := Advisory{ID: "x", Kind: KnownBad, Affects: "MIG nodes", Reason: "pods stay Pending", Fixed: "570.172.08", Source: "issue 1361"}
	for _, c := range []struct {
		a           Advisory
		day         string
		warns, near bool
		text        string
	}{
		{eol, "2025-12-31", false, false, "support of its branch ends with 2026-06 (NVIDIA)"},
		{eol, "2026-01-01", false, true, "support of its branch ends with 2026-06 (NVIDIA)"},
		{eol, "2026-06-30", false, true, "support of its branch ends with 2026-06 (NVIDIA)"},
		{eol, "2026-07-01", true, true, "support of its branch ended with 2026-06 (NVIDIA)"},
		{over, "1970-01-01", true, true, "its branch is no longer supported (tags)"},
		{fault, "1970-01-01", true, true, "known to be bad: MIG nodes: pods stay Pending; fixed in 570.172.08 (issue 1361)"},
	} {
		day, err := time.Parse(time.DateOnly, c.day)
		assert.NoError(t, err)
		assert.Equalf(t, c.warns, c.a.Warns(day), "%s on %s: Warns", c.a.ID, c.day)
		assert.Equalf(t, c.near, c.a.Near(day), "%s on %s: Near", c.a.ID, c.day)
		assert.Equal(t, c.text, c.a.Text(day))
	}
}

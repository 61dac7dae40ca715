package releases

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// wrapped are advisories as a driver of the matrix has them.
func wrapped(all []driverinfo.Advisory) (rows []matrix.Advisory) {
	for _, a := range all {
		rows = append(rows, matrix.Advisory{Advisory: a})
	}
	return rows
}

// TestAdvisoriesOf: the table knows the ends of life; the matrix may say otherwise.
func TestAdvisoriesOf(t *testing.T) {
	t.Parallel()
	of := func(version string, stated ...driverinfo.Advisory) []driverinfo.Advisory {
		return AdvisoriesOf(matrix.Driver{Version: version, Advisories: wrapped(stated)})
	}
	stated := driverinfo.Advisory{ID: "contract", Kind: driverinfo.EndOfLife, Until: "2029-12", Source: "our contract"}
	fault := driverinfo.Advisory{ID: "x", Kind: driverinfo.KnownBad, Reason: "r", Source: "s"}
	got := of("535.309.01", fault)
	assert.Same(t, []driverinfo.Advisory{fault, {ID: "end-of-life-r535", Kind: driverinfo.EndOfLife, Until: "2026-06", Source: "NVIDIA, supported drivers, edition with R610"}}, got)
	assert.Same(t, []driverinfo.Advisory{stated}, of("535.309.01", stated))
	assert.Same(t, []driverinfo.Advisory{{ID: "end-of-life-r396", Kind: driverinfo.EndOfLife, Source: "no release for years, NVIDIA/nvidia-installer"}}, of("396.54"))
	assert.Equal(t, 0, len(of("615.71.09"))) // no end is known
	assert.Equal(t, 0, len(of("999.1")))
}

// TestEndsOfLife: each end of life of the table can be written into an image.
func TestEndsOfLife(t *testing.T) {
	t.Parallel()
	for _, b := range Builtin().Branches {
		for _, a := range AdvisoriesOf(matrix.Driver{Version: b.Name[1:] + ".1"}) {
			assert.Equalf(t, "", a.Check(), "%s", b.Name)
		}
	}
}

// TestRecommend: the newest supported production driver is the best, the long-term one is named beside it, and
// both change with the day.
func TestRecommend(t *testing.T) {
	t.Parallel()
	bad := wrapped([]driverinfo.Advisory{{Kind: driverinfo.KnownBad}})
	all := []matrix.Driver{
		{Version: "470.256.02"}, {Version: "580.173.02"}, {Version: "580.178.04"}, {Version: "595.84"}, {Version: "595.91.07"}, {Version: "610.57.04"}, {Version: "615.71.09", VGPU: "x"},
	}
	for i := range all {
		all[i].Components = matrix.Components{matrix.FabricManager: {"amd64": {}}}
	}
	worse := append([]matrix.Driver{{Version: "595.99.02", Advisories: bad}}, all...)
	lacking := append([]matrix.Driver{{Version: "595.99.02"}, {Version: "580.190.01"}}, all...)
	for _, c := range []struct {
		day                                  string
		drivers                              []matrix.Driver
		best, support, longTerm, mark, mark2 string // mark: of best; mark2: of longTerm
	}{
		{"2026-07-01", all, "595.91.07", "production until 2027-03", "580.178.04", "recommended: production until 2027-03", "recommended: LTS until 2028-06"},
		{"2026-07-01", worse, "595.91.07", "production until 2027-03", "580.178.04", "recommended: production until 2027-03", "recommended: LTS until 2028-06"},
		{"2027-04-01", all, "580.178.04", "LTS until 2028-06", "580.178.04", "recommended: LTS until 2028-06", "recommended: LTS until 2028-06"},
		{"2026-07-01", lacking, "595.99.02", "production until 2027-03", "580.190.01", "recommended: production until 2027-03 (not with NVLink switches)", "recommended: LTS until 2028-06 (not with NVLink switches)"},
		{"2029-01-01", all, "610.57.04", "over since 2026-08", "", "", ""},
		{"2026-07-01", all[5:6], "610.57.04", "new-feature until 2026-08", "", "", ""},
		{"2026-07-01", all[6:], "", "", "", "", ""},
	} {
		day, err := time.Parse(time.DateOnly, c.day)
		assert.NoError(t, err)
		a := Advisor{Day: day}.Recommend(c.drivers)
		got := [5]string{a.Driver, a.Support, a.LongTerm, a.Mark(a.Driver), a.Mark(a.LongTerm)}
		assert.Equalf(t, [5]string{c.best, c.support, c.longTerm, c.mark, c.mark2}, got, "%s", c.day)
		assert.Equalf(t, "", a.Mark("470.256.02"), "%s: an old one", c.day)
	}
	a := Advisor{Day: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)}.Recommend(lacking)
	assert.Equal(t, "recommended with NVLink switches: production until 2027-03", a.Mark("595.91.07"))
	assert.Equal(t, "recommended with NVLink switches: LTS until 2028-06", a.Mark("580.178.04"))
	assert.Equal(t, "", a.Mark("580.173.02"))
}

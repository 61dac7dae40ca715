package matrix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// bad is a correct advisory of kind known-bad with this id about these drivers.
func bad(id, drivers, more string) string {
	return fmt.Sprintf("{id: %s, kind: known-bad, drivers: [%s], reason: r, source: s%s}", id, drivers, more)
}

// end is a correct end of life.
func end(id, drivers, until string) string {
	return fmt.Sprintf("{id: %s, kind: end-of-life, drivers: [%s], until: %s, source: s}", id, drivers, until)
}

// withAdvisories is a matrix with driver 535.261.03 and these advisories, one a line from line 4 on.
func withAdvisories(all ...string) []byte {
	return []byte(file(goodSystem, driverYAML("535.261.03", ", cuda: 12.2"), "advisories:\n- "+strings.Join(all, "\n- ")+"\n"))
}

func TestAdvisories(t *testing.T) {
	t.Parallel()
	m := require.Value(Parse("m", withAdvisories(
		bad("a", "535.261.3, 570.1", ", affects: some nodes, fixed: 535.274.02, nodes: {instances: [p6e-gb200.*], devices: ['2941', 31c2]}"), end("b", "535.*", "2026-06"), bad("c", "570.*", ""), end("d", "580.*", "2028-06"),
	)))(t)
	d := m.Drivers[0]
	assert.Equal(t, "12.2", d.CUDA)
	assert.Equal(t, 2, len(d.Advisories))
	assert.Same(t, driverinfo.Advisory{ID: "a", Kind: driverinfo.KnownBad, Affects: "some nodes", Reason: "r", Fixed: "535.274.02", Source: "s"}, d.Advisories[0].Advisory)
	assert.Same(t, driverinfo.Advisory{ID: "b", Kind: driverinfo.EndOfLife, Until: "2026-06", Source: "s"}, d.Advisories[1].Advisory)
	assert.Same(t, &AdvisoryNodes{Instances: []string{"p6e-gb200.*"}, Devices: []string{"2941", "31c2"}}, d.Advisories[0].Nodes)
	assert.Equal(t, 1, len(m.AdvisoriesOf("570.86.15")))
	assert.Equal(t, 0, len(m.AdvisoriesOf("5350.1")))
}

// TestAdvisoryNodes: a machine is meant if every list that is there has it.
func TestAdvisoryNodes(t *testing.T) {
	t.Parallel()
	type gpus = []uint16
	both := AdvisoryNodes{Instances: []string{"p6e-gb200.*", "x.large"}, Devices: []string{"2941"}}
	assert.Equal(t, true, both.Have("p6e-gb200.36xlarge", gpus{0x1eb8, 0x2941}))
	assert.Equal(t, true, both.Have("x.large", gpus{0x2941}))
	assert.Equal(t, false, both.Have("x.larger", gpus{0x2941}))
	assert.Equal(t, false, both.Have("p6e-gb200.36xlarge", gpus{0x1eb8}))
	assert.Equal(t, false, both.Have("", gpus{0x2941}))
	instances := AdvisoryNodes{Instances: both.Instances}
	assert.Equal(t, true, instances.Have("p6e-gb200.36xlarge", nil))
	devices := AdvisoryNodes{Devices: both.Devices}
	assert.Equal(t, true, devices.Have("", gpus{0x2941}))
	assert.Equal(t, false, devices.Have("p6e-gb200.36xlarge", nil))
}

// TestAdvisoriesRefused: mistakes, and advisories that contradict each other with both positions.
func TestAdvisoriesRefused(t *testing.T) {
	t.Parallel()
	var many []string
	for n := range 16 {
		many = append(many, bad(fmt.Sprintf("many-%d", n), "535.*", ""))
	}
	for name, c := range map[string]struct {
		all  []string
		want string
	}{
		"one id twice":                {[]string{bad("a", "1.1", ""), bad("b", "1.1", ""), bad("a", "2.2", "")}, `m:6:3: advisory "a" appears twice: first on line 4`},
		"two ends of one branch":      {[]string{end("a", "535.*", "2026-06"), end("b", "535.261.03", "2026-08")}, "m:5:3: the support of driver 535.261.03 ends with 2026-08 here and with 2026-06 on line 4"},
		"two ends, the same":          {[]string{end("a", "535.*", "2026-06"), end("b", "535.*", "2026-06")}, "keep one of them"},
		"two ends, written otherwise": {[]string{end("a", "535.86.05", "2026-06"), end("b", "535.86.5", "2026-08")}, "the support of driver"},
		"fixed where it is bad":       {[]string{bad("a", "570.*", ", fixed: 570.172.08")}, "advisory a is about driver 570.172.08, and says that this driver has it fixed"},
		"no id":                       {[]string{"{kind: known-bad, drivers: [1.1], reason: r, source: s}"}, "m:4:3: an advisory has no key id"},
		"kind":                        {[]string{"{id: a, kind: know-bad, drivers: [1.1], reason: r, source: s}"}, "(did you mean known-bad?)"},
		"kernels are elsewhere":       {[]string{"{id: a, kind: kernel-broken, drivers: [1.1], reason: r, source: s}"}, `kind "kernel-broken" is not known`},
		"no drivers":                  {[]string{"{id: a, kind: known-bad, reason: r, source: s}"}, "an advisory has no key drivers"},
		"pattern of everything":       {[]string{bad("a", `"*"`, "")}, "is neither a driver version nor a pattern such as 570.*"},
		"no source":                   {[]string{"{id: a, kind: known-bad, drivers: [1.1], reason: r}"}, "an advisory has no key source"},
		"no reason":                   {[]string{"{id: a, kind: known-bad, drivers: [1.1], source: s}"}, "it has no reason"},
		"no month":                    {[]string{"{id: a, kind: end-of-life, drivers: [1.1], source: s}"}, "an end of life has no key until"},
		"a day":                       {[]string{end("a", "1.1", "2026-06-30")}, `until "2026-06-30" is no month, such as 2026-06`},
		"month 13":                    {[]string{end("a", "1.1", "2026-13")}, "is no month"},
		"reason of an end":            {[]string{"{id: a, kind: end-of-life, drivers: [1.1], until: 2026-06, reason: r, source: s}"}, "an end of life has neither"},
		"month of a fault":            {[]string{bad("a", "1.1", ", until: 2026-06")}, "until is about an end of life"},
		"hostile id":                  {[]string{bad(`"../../x"`, "1.1", "")}, "is no word of small letters"},
		"long reason":                 {[]string{"{id: a, kind: known-bad, drivers: [1.1], source: s, reason: " + strings.Repeat("r", 1025) + "}"}, "longer than 1024 bytes"},
		"nodes without words":         {[]string{bad("a", "1.1", ", nodes: {devices: ['2941']}")}, "advisory a has nodes without affects: say in words which nodes these are"},
		"nodes of nothing":            {[]string{bad("a", "1.1", ", affects: x, nodes: {devices: [10de:2941]}")}, "is no PCI number of a GPU"},
		"pattern in the middle":       {[]string{bad("a", "1.1", ", affects: x, nodes: {instances: ['p*.x']}")}, "is no type of a cloud's machines"},
		"unknown key":                 {[]string{bad("a", "1.1", ", affect: x")}, "(did you mean affects?)"},
		"too many for an image":       {many, "driver 535.261.03 has 16 advisories, of which an image can name 15"},
	} {
		assert.ErrorContainsf(t, assert.Err(Parse("m", withAdvisories(c.all...))), c.want, "%s", name)
	}
}

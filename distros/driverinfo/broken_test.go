package driverinfo

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestCheckFlavour: which kernels are in a range, and of which that is not certain.
func TestCheckFlavour(t *testing.T) {
	t.Parallel()
	resize := Broken{From: "6.1.187", Below: "6.2", Flavours: []string{Open}, Reason: "four arguments"}
	const no, certain, doubtful = "no", "certain", "doubtful"
	for _, c := range []struct {
		release, version, flavour string
		broken                    []Broken
		want                      string
	}{
		{"6.1.0-56-amd64", "6.1.192", Open, []Broken{resize}, certain},
		{"6.1.0-53-amd64", "6.1.187", Open, []Broken{resize}, certain},
		{"6.1.0-50-amd64", "6.1.176", Open, []Broken{resize}, no},
		{"6.1.0-56-amd64", "", Open, []Broken{resize}, doubtful},
		{"6.1.0-56-amd64", "6.1.192", Proprietary, []Broken{resize}, no},
		{"6.1.192-custom", "", Open, []Broken{resize}, certain},
		{"6.2.0-26-generic", "", Open, []Broken{resize}, no},
		{"6.0.0-4-amd64", "", Open, []Broken{resize}, no},
		{"5.10.0-46-amd64", "", Open, []Broken{{From: "5.9", Reason: "r"}}, certain},
		{"5.8.0-63-generic", "", Open, []Broken{{From: "5.9", Reason: "r"}}, no},
		{"6.2.0-26-generic", "", Open, []Broken{{From: "6.2", Below: "6.2.16", Reason: "r"}}, doubtful},
		{"6.2.16", "", Open, []Broken{{From: "6.2", Below: "6.2.16", Reason: "r"}}, no},
		{"6.1.0-56-amd64", "", Open, []Broken{resize, {From: "6.1", Below: "6.2", Reason: "r"}}, certain},
		{"own", "", Open, []Broken{resize}, no},
	} {
		got := no
		if e := (KernelRule{Broken: c.broken}).CheckFlavour(Kernel{Release: c.release, Version: c.version}, c.flavour); e != nil {
			if got = doubtful; e.Certain {
				got = certain
			}
		}
		assert.Equalf(t, c.want, got, "%s (%s), %s modules, %v", c.release, c.version, c.flavour, c.broken)
	}
}

// TestLift: what a rule says after a change to the sources.
func TestLift(t *testing.T) {
	t.Parallel()
	both := []string{Proprietary, Open}
	open := []string{Open}
	resize := Broken{From: "6.1.187", Below: "6.2", Flavours: open, Reason: "r"}
	endless := Broken{From: "5.9", Reason: "r"}
	limit := KernelRule{Max: "6.9", Reason: "unpatched"}
	ranges := func(list ...Broken) KernelRule { return KernelRule{Broken: list} }
	for name, c := range map[string]struct {
		rule    KernelRule
		span    Span
		some    []string
		want    KernelRule
		changed bool
		err     string
	}{
		"the whole range":         {ranges(resize), Span{"6.1.187", "6.2"}, open, ranges(), true, ""},
		"more than the range":     {ranges(resize), Span{"6.1", ""}, both, ranges(), true, ""},
		"its end":                 {ranges(resize), Span{"6.1.190", "6.2"}, open, ranges(Broken{"6.1.187", "6.1.190", open, "r"}), true, ""},
		"its begin":               {ranges(resize), Span{"6.1", "6.1.190"}, open, ranges(Broken{"6.1.190", "6.2", open, "r"}), true, ""},
		"its middle":              {ranges(endless), Span{"6.1", "6.2"}, both, ranges(Broken{"5.9", "6.1", both, "r"}, Broken{"6.2", "", both, "r"}), true, ""},
		"the other flavour":       {ranges(resize), Span{"6.1.187", "6.2"}, []string{Proprietary}, ranges(resize), false, ""},
		"one of two flavours":     {ranges(endless), Span{"5.9", ""}, open, ranges(Broken{"5.9", "", []string{Proprietary}, "r"}), true, ""},
		"before it":               {ranges(resize), Span{"5.10", "6.1.187"}, open, ranges(resize), false, ""},
		"behind it":               {ranges(resize), Span{"6.2", ""}, open, ranges(resize), false, ""},
		"one of two ranges":       {ranges(resize, endless), Span{"6.1.187", "6.2"}, both, ranges(Broken{"5.9", "6.1.187", both, "r"}, Broken{"6.2", "", both, "r"}), true, ""},
		"nothing":                 {KernelRule{Max: "6.16", Reason: "x"}, Span{"6.1", "6.2"}, both, KernelRule{Max: "6.16", Reason: "x"}, false, ""},
		"above max":               {limit, Span{"6.10", "6.13"}, both, KernelRule{Max: "6.12", Reason: "unpatched; above 6.9 with the patch p"}, true, ""},
		"above max, from below":   {limit, Span{"6.1", "6.13"}, both, KernelRule{Max: "6.12", Reason: "unpatched; above 6.9 with the patch p"}, true, ""},
		"above max, next major":   {limit, Span{"7.0", "7.1.5"}, both, KernelRule{Max: "7.1.4", Reason: "unpatched; above 6.9 with the patch p"}, true, ""},
		"up to max":               {limit, Span{"6.1", "6.10"}, both, limit, false, ""},
		"above max, a gap":        {limit, Span{"6.12", "6.13"}, both, limit, false, "would be left out"},
		"above max, no end":       {limit, Span{"6.10", ""}, both, limit, false, "need an end"},
		"above max, end 7.0":      {limit, Span{"6.10", "7.0"}, both, limit, false, "need an end"},
		"above max, some":         {limit, Span{"6.10", "6.13"}, open, limit, false, "for all flavours"},
		"a range and a limit too": {KernelRule{Max: "6.1", Reason: "x", Broken: []Broken{resize}}, Span{"6.1.187", "6.3"}, both, KernelRule{Max: "6.2", Reason: "x; above 6.1 with the patch p"}, true, ""},
	} {
		got, changed, err := c.rule.Lift(c.span, c.some, both, "p")
		if c.err != "" {
			assert.ErrorContainsf(t, err, c.err, "%s", name)
			assert.Samef(t, c.rule, got, "%s", name)
			continue
		}
		assert.NoErrorf(t, err, "%s", name)
		assert.Equalf(t, c.changed, changed, "%s: changed", name)
		assert.Samef(t, c.want, got, "%s", name)
	}
}

// TestUpstream: which release of kernel.org a kernel was made from, where it can be known.
func TestUpstream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ release, packaged, want string }{
		{"6.1.0-56-amd64", "6.1.192-2", "6.1.192"},         // Debian 12
		{"6.12.117+deb13-amd64", "6.12.117-1", "6.12.117"}, // Debian 13
		{"6.8.0-50-generic", "6.8.0-50.51", ""},            // Ubuntu
		{"5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427", ""}, // RHEL
		{"6.11.4-301.fc41.x86_64", "", "6.11.4"},           // Fedora
		{"6.6.60-flatcar", "", "6.6.60"},                   // Flatcar
		{"6.1.0-56-amd64", "6.12.117-1", ""},               // another kernel's package
		{"6.1.0-56-amd64", "", ""}, {"", "", ""}, {"own", "own", ""},
	} {
		assert.Equalf(t, c.want, UpstreamRelease(c.release, c.packaged), "%s", c.release)
	}
	const debian = "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, " +
		"GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-30)\n"
	assert.Equal(t, "6.1.192", RunningRelease("6.1.0-56-amd64", debian, ""))
	assert.Equal(t, "6.8.12", RunningRelease("6.8.0-50-generic", "Linux version 6.8.0-50-generic", "Ubuntu 6.8.0-50.51-generic 6.8.12\n"))
	assert.Equal(t, "6.6.60", RunningRelease("6.6.60-flatcar", "", ""))
	assert.Equal(t, "", RunningRelease("6.1.0-56-amd64", "Linux version 6.1.0-56-amd64 #1 SMP", ""))
}

package driverinfo

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

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

package main

import (
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v4"
)

// goal is a row of the table. Without an alternative, less than want is met; otherwise the
// alternative needs want times as much, or more.
type goal struct {
	Text string
	Want float64
	Of   column

	Ours, Alternative string // cases of the raw numbers

	// Bound is what C tools alone take for the same bytes. A goal that would need less than that is
	// impossible; then being no slower than the bound counts.
	Bound string
}

//go:embed goals.yaml
var goalsFile []byte

// goals returns the rows of the table, in its order.
func goals() (all []goal, err error) {
	return all, yaml.Load(goalsFile, &all, yaml.WithKnownFields())
}

// ratio is how many times as much the alternative needs; "" without both numbers.
func (g goal) ratio(r *raw) string {
	ours := r.median(g.Ours, g.Of)
	alternative := r.median(g.Alternative, g.Of)
	if ours == 0 || alternative == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", alternative/ours)
}

// verdict is what the numbers say of the goal.
func (g goal) verdict(r *raw) string {
	ours := r.median(g.Ours, g.Of)
	alternative := r.median(g.Alternative, g.Of)
	tools := r.median(g.Bound, g.Of)
	// 2.4 is 3 times 0.8, except in floating point.
	reached := func(v float64) bool { return v > 0 && alternative/v >= g.Want-1e-9 }
	switch {
	case ours == 0 || g.Alternative != "" && alternative == 0:
		return "not measured"
	case g.Alternative == "" && ours < g.Want, g.Alternative != "" && reached(ours):
		return "met"
	case tools == 0 || reached(tools):
		return "**not met**"
	case ours <= tools:
		return "impossible with the C tools; faster than these: met"
	}
	return "impossible with the C tools; slower than these: **not met**"
}

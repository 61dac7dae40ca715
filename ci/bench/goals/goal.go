package main

import (
	"fmt"
	"strings"
)

// kind is how a measurement is compared with its alternative.
type kind int

const (
	times kind = iota // the alternative takes want times as long, or longer
	below             // it takes less than want; there is no alternative
	share             // it is at most want of the alternative, or takes at most want times as long
)

// goal is a row of the table. ours, alternative and bound are cases of the raw numbers.
type goal struct {
	text        string
	kind        kind
	want        float64
	of          column
	unit        string
	ours        string
	alternative string

	// bound is what C tools alone take for the same bytes. A goal that would need less than that is impossible;
	// then being no slower than the bound counts.
	bound string
}

// goals are the rows of the table, in its order.
var goals = []goal{
	{"universal image from packages, nothing but downloads cached: 3 times the Dockerfile by processor time", times, 3, processor, "s", "buildkit/universal-cold-driver-build", "buildkit/universal-cold-dockerfile", "buildkit/universal-tools"},
	{"the same by elapsed time: 2.5 times", times, 2.5, elapsed, "s", "buildkit/universal-cold-driver-build", "buildkit/universal-cold-dockerfile", "buildkit/universal-tools"},
	{"from a `.run` archive with zstd: 4 times the Dockerfile by processor time", times, 4, processor, "s", "buildkit/run-cold-driver-build", "buildkit/run-cold-dockerfile", "buildkit/run-cold-tools"},
	{"empty runner, filled registry: below 10 s", below, 10, elapsed, "s", "runner/filled", "", ""},
	{"the same: 50 times an empty registry", times, 50, elapsed, "s", "runner/filled", "runner/empty", ""},
	{"nothing changed, versions pinned: no slower than `buildctl`", times, 1, elapsed, "s", "buildkit/universal-warm-driver-build", "buildkit/universal-warm-dockerfile", ""},
	{"nothing changed, into a new layout: no slower than `buildctl`", times, 1, elapsed, "s", "buildkit/universal-copy-driver-build", "buildkit/universal-copy-dockerfile", ""},
	{"second system from the same archive, versions pinned: 10 times the Dockerfile, nothing cached", times, 10, processor, "s", "buildkit/run-system2-driver-build", "buildkit/run-system2-dockerfile", "buildkit/run-system2-tools"},
	{"second driver, from packages: 10 times the Dockerfile, nothing cached", times, 10, processor, "s", "buildkit/universal-driver2-driver-build", "buildkit/universal-cold-dockerfile", "buildkit/universal-driver2-tools"},
	{"100 images with 90 shared layers: at most 1.3 times what the distinct layers cost", share, 1.3, elapsed, "s", "many/all/100", "many/distinct/10", ""},
	{"list of 10,000 nodes (`fleet`): below 2 s", below, 2, elapsed, "s", "nodes/fleet-10000", "", ""},
	{"the same by processor time: 3 times as fast as `jq` reads it", times, 3, processor, "s", "nodes/fleet-10000", "nodes/jq-10000", ""},
	{"precompiled image: no slower than the Dockerfile, by processor time", times, 1, processor, "s", "buildkit/precompiled-cold-chroot", "buildkit/precompiled-cold-dockerfile", ""},
	{"the same by elapsed time", times, 1, elapsed, "s", "buildkit/precompiled-cold-chroot", "buildkit/precompiled-cold-dockerfile", ""},
	{"thin image for compute nodes, proprietary modules (`cuda`): at most 40 % of `full`", share, 0.4, megabytes, "MB", "sizes/cuda", "sizes/full", ""},
	{"thin image for compute nodes, proprietary modules (`cuda-ga10x`): at most 40 % of `full`", share, 0.4, megabytes, "MB", "sizes/cuda-ga10x", "sizes/full", ""},
	{"thin image for compute nodes, proprietary modules (`cuda-tu10x`): at most 40 % of `full`", share, 0.4, megabytes, "MB", "sizes/cuda-tu10x", "sizes/full", ""},
	{"thin image for compute nodes, open modules (`cuda`): at most 40 % of `full`", share, 0.4, megabytes, "MB", "sizes/cuda-open", "sizes/full-open", ""},
	{"thin image for compute nodes, open modules (`cuda-ga10x`): at most 40 % of `full`", share, 0.4, megabytes, "MB", "sizes/cuda-ga10x-open", "sizes/full-open", ""},
	{"thin image for compute nodes, open modules (`cuda-tu10x`): at most 40 % of `full`", share, 0.4, megabytes, "MB", "sizes/cuda-tu10x-open", "sizes/full-open", ""},
	{"second start on an emulated node: own part, without the kernel's load of the modules, below 2.5 s", below, 2.5, elapsed, "s", "boot/start", "", ""},
	{"first start on an emulated baked machine: own part below 3 s", below, 3, elapsed, "s", "boot/start-baked", "", ""},
	{"peak memory of driver-build below 300 MB: cold, from packages", below, 300, peak, "MB", "buildkit/universal-cold-driver-build", "", ""},
	{"peak memory of driver-build below 300 MB: precompiling in a chroot", below, 300, peak, "MB", "buildkit/precompiled-cold-chroot", "", ""},
}

func peak(r run) float64 { return r.peakKB / 1000 }

// result is what the numbers say of a goal.
type result struct {
	ours, alternative, ratio, bound, verdict string
	runs                                     int
	load                                     string
}

func (g goal) judge(r *raw) result {
	ours, ok := r.median(g.ours, g.of)
	res := result{runs: len(r.runs[g.ours]), load: r.load(g.ours, g.alternative)}
	if !ok {
		return result{verdict: "not measured"}
	}
	res.ours = g.number(ours)
	if g.kind == below {
		res.verdict = verdict(ours < g.want)
		return res
	}
	alternative, ok := r.median(g.alternative, g.of)
	if !ok || ours == 0 || alternative == 0 {
		res.verdict = "not measured"
		return res
	}
	res.alternative = g.number(alternative)
	switch g.kind {
	case share:
		res.ratio = fmt.Sprintf("%.2f", ours/alternative)
		res.verdict = verdict(ours/alternative <= g.want)
	default:
		res.ratio = strings.TrimSuffix(fmt.Sprintf("%.1f", alternative/ours), ".0")
		res.verdict = verdict(g.reached(ours, alternative))
		g.judgeBound(r, ours, alternative, &res)
	}
	return res
}

// judgeBound replaces a verdict if C tools alone are too slow for the goal.
func (g goal) judgeBound(r *raw, ours, alternative float64, res *result) {
	tools, ok := r.median(g.bound, g.of)
	if !ok || tools == 0 {
		return
	}
	res.bound = fmt.Sprintf("%s: %.1f", g.number(tools), alternative/tools)
	switch {
	case g.reached(ours, alternative) || g.reached(tools, alternative):
	case ours <= tools:
		res.verdict = "impossible with the C tools; faster than these: met"
	default:
		res.verdict = "impossible with the C tools; slower than these: **not met**"
	}
}

// reached reports whether the alternative takes want times as long. 2.4 is 3 times 0.8, except in
// floating point.
func (g goal) reached(ours, alternative float64) bool { return alternative/ours >= g.want-1e-9 }

func (g goal) number(v float64) string {
	digits := 1
	if v < 10 {
		digits = 2
	}
	return fmt.Sprintf("%.*f %s", digits, v, g.unit)
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**not met**"
}

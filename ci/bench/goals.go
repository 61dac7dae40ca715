package main

import "fmt"

// goal is a row of the table. Without an alternative, less than want is met; otherwise the
// alternative needs want times as much, or more.
type goal struct {
	text string
	want float64
	of   column

	ours, alternative string // cases of the raw numbers

	// bound is what C tools alone take for the same bytes. A goal that would need less than that is
	// impossible; then being no slower than the bound counts.
	bound string
}

// goals are the rows of the table, in its order.
var goals = []goal{
	{
		"universal image from packages, nothing but downloads cached: 3 times the Dockerfile by processor time",
		3,
		processor,
		"buildkit/universal-cold-driver-build",
		"buildkit/universal-cold-dockerfile",
		"buildkit/universal-tools",
	},
	{
		"the same by elapsed time: 2.5 times",
		2.5,
		elapsed,
		"buildkit/universal-cold-driver-build",
		"buildkit/universal-cold-dockerfile",
		"buildkit/universal-tools",
	},
	{
		"from a `.run` archive with zstd: 4 times the Dockerfile by processor time",
		4,
		processor,
		"buildkit/run-cold-driver-build",
		"buildkit/run-cold-dockerfile",
		"buildkit/run-cold-tools",
	},
	{"empty runner, filled registry: below 10 s", 10, elapsed, "runner/filled", "", ""},
	{"the same: 50 times an empty registry", 50, elapsed, "runner/filled", "runner/empty", ""},
	{
		"nothing changed, versions pinned: no slower than `buildctl`",
		1,
		elapsed,
		"buildkit/universal-warm-driver-build",
		"buildkit/universal-warm-dockerfile",
		"",
	},
	{
		"nothing changed, into a new layout: no slower than `buildctl`",
		1,
		elapsed,
		"buildkit/universal-copy-driver-build",
		"buildkit/universal-copy-dockerfile",
		"",
	},
	{
		"second system from the same archive, versions pinned: 10 times the Dockerfile, nothing cached",
		10,
		processor,
		"buildkit/run-system2-driver-build",
		"buildkit/run-system2-dockerfile",
		"buildkit/run-system2-tools",
	},
	{
		"second driver, from packages: 10 times the Dockerfile, nothing cached",
		10,
		processor,
		"buildkit/universal-driver2-driver-build",
		"buildkit/universal-cold-dockerfile",
		"buildkit/universal-driver2-tools",
	},
	{
		"100 images with 90 shared layers: at most 1.3 times what the distinct layers take",
		1 / 1.3,
		elapsed,
		"many/all",
		"many/distinct",
		"",
	},
	{"list of 10,000 nodes (`fleet`): below 2 s", 2, elapsed, "nodes/fleet-10000", "", ""},
	{
		"the same by processor time: 3 times as fast as `jq` reads it",
		3,
		processor,
		"nodes/fleet-10000",
		"nodes/jq-10000",
		"",
	},
	{
		"precompiled image: no slower than the Dockerfile, by processor time",
		1,
		processor,
		"buildkit/precompiled-cold-chroot",
		"buildkit/precompiled-cold-dockerfile",
		"",
	},
	{
		"the same by elapsed time",
		1,
		elapsed,
		"buildkit/precompiled-cold-chroot",
		"buildkit/precompiled-cold-dockerfile",
		"",
	},
	{
		"thin image for compute nodes, proprietary modules (`cuda`): `full` is 2.5 times as large",
		2.5,
		megabytes,
		"sizes/cuda",
		"sizes/full",
		"",
	},
	{
		"thin image for compute nodes, proprietary modules (`cuda-ga10x`): `full` is 2.5 times as large",
		2.5,
		megabytes,
		"sizes/cuda-ga10x",
		"sizes/full",
		"",
	},
	{
		"thin image for compute nodes, proprietary modules (`cuda-tu10x`): `full` is 2.5 times as large",
		2.5,
		megabytes,
		"sizes/cuda-tu10x",
		"sizes/full",
		"",
	},
	{
		"thin image for compute nodes, open modules (`cuda`): `full` is 2.5 times as large",
		2.5,
		megabytes,
		"sizes/cuda-open",
		"sizes/full-open",
		"",
	},
	{
		"thin image for compute nodes, open modules (`cuda-ga10x`): `full` is 2.5 times as large",
		2.5,
		megabytes,
		"sizes/cuda-ga10x-open",
		"sizes/full-open",
		"",
	},
	{
		"thin image for compute nodes, open modules (`cuda-tu10x`): `full` is 2.5 times as large",
		2.5,
		megabytes,
		"sizes/cuda-tu10x-open",
		"sizes/full-open",
		"",
	},
	{
		"universal image on a new node, pull and unpack: 1.5 times as fast as with gzip",
		1.5,
		elapsed,
		"pull/universal",
		"pull/universal-gzip",
		"",
	},
	{"thin image (`cuda`): at most 110 MB", 110, megabytes, "pull/thin-size", "", ""},
	{
		"thin image: the Dockerfile's image is 4 times as large",
		4,
		megabytes,
		"pull/thin-size",
		"pull/dockerfile-size",
		"",
	},
	{
		"thin image, pull and unpack: 4 times as fast as the Dockerfile's image",
		4,
		elapsed,
		"pull/thin",
		"pull/dockerfile",
		"",
	},
	{"the same through 1 Gbit/s", 4, elapsed, "pull/thin-gigabit", "pull/dockerfile-gigabit", ""},
	{
		"start of a container from an empty page cache to preflight's verdict: below 1 s",
		1,
		elapsed,
		"pull/thin-start",
		"",
		"",
	},
	{
		"next driver on a node that has the first: a quarter of the universal image's bytes is there",
		4. / 3,
		megabytes,
		"pull/next-size",
		"pull/universal-size",
		"",
	},
	{
		"second start on an emulated node: own part, without the kernel's load of the modules, below 2.5 s",
		2.5,
		elapsed,
		"boot/start",
		"",
		"",
	},
	{
		"first start on an emulated baked machine: own part below 3 s",
		3,
		elapsed,
		"boot/start-baked",
		"",
		"",
	},
	{
		"peak memory of driver-build below 300 MB: cold, from packages",
		300,
		peak,
		"buildkit/universal-cold-driver-build",
		"",
		"",
	},
	{
		"peak memory of driver-build below 300 MB: precompiling in a chroot",
		300,
		peak,
		"buildkit/precompiled-cold-chroot",
		"",
		"",
	},
}

// ratio is how many times as much the alternative needs; "" without both numbers.
func (g goal) ratio(r *raw) string {
	ours := r.median(g.ours, g.of)
	alternative := r.median(g.alternative, g.of)
	if ours == 0 || alternative == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", alternative/ours)
}

// verdict is what the numbers say of the goal.
func (g goal) verdict(r *raw) string {
	ours := r.median(g.ours, g.of)
	alternative := r.median(g.alternative, g.of)
	tools := r.median(g.bound, g.of)
	// 2.4 is 3 times 0.8, except in floating point.
	reached := func(v float64) bool { return v > 0 && alternative/v >= g.want-1e-9 }
	switch {
	case ours == 0 || g.alternative != "" && alternative == 0:
		return "not measured"
	case g.alternative == "" && ours < g.want, g.alternative != "" && reached(ours):
		return "met"
	case tools == 0 || reached(tools):
		return "**not met**"
	case ours <= tools:
		return "impossible with the C tools; faster than these: met"
	}
	return "impossible with the C tools; slower than these: **not met**"
}

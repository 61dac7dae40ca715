package batch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
)

// Warning is what people should know about drivers, of a kind that --deny names.
type Warning struct{ Kind, Text string }

// Judgement is what people should know about the drivers of some targets on a day.
type Judgement struct {
	Warnings []Warning // each once
	Notices  []string  // ends of life within the next months
}

// Judge collects the advisories of the drivers of targets, and the kernels that break them. Drivers
// whose branches are no longer supported share a line, and so do systems that share a reason.
func Judge(targets []matrix.Target, day time.Time) (j Judgement) {
	var ended, ending []string
	byVersion := func(a, b matrix.Target) int { return matrix.CompareVersions(a.Driver.Version, b.Driver.Version) }
	drivers := slices.SortedStableFunc(slices.Values(targets), byVersion)
	for _, t := range slices.CompactFunc(drivers, func(a, b matrix.Target) bool { return byVersion(a, b) == 0 }) {
		for _, n := range releases.Notes(t.Driver, day) {
			switch {
			case n.Kind == driverinfo.EndOfLife && n.Severity == releases.Warning:
				ended = append(
					ended,
					fmt.Sprintf("%s (%s)", t.Driver.Version, cmp.Or(n.Until, "over")),
				)
			case n.Kind == driverinfo.EndOfLife && n.Near(day):
				ending = append(ending, fmt.Sprintf("%s (%s)", t.Driver.Version, n.Until))
			case n.Severity == releases.Warning:
				j.warn(n.Kind, fmt.Sprintf("driver %s is %s", t.Driver.Version, n.Text(day)))
			}
		}
	}
	if len(ended) > 0 {
		j.warn(
			driverinfo.EndOfLife,
			"NVIDIA no longer supports the branches of "+strings.Join(ended, ", "),
		)
	}
	if len(ending) > 0 {
		j.Notices = append(
			j.Notices,
			"NVIDIA's support ends soon for the branches of "+strings.Join(ending, ", "),
		)
	}
	j.Notices = append(j.Notices, systemNotices(targets, day)...)
	var limits []Cause // systems by driver and reason
	for _, t := range targets {
		for _, reason := range recipe.Limits(t) {
			limits = AddCause(limits, t.Driver.Version+" on %s: "+reason, t.System.ID)
		}
	}
	for _, l := range limits {
		driver, reason, _ := strings.Cut(l.Text, "%s")
		j.warn(
			driverinfo.KernelBroken,
			"driver "+driver+strings.Join(slices.Compact(l.Targets), ", ")+reason,
		)
	}
	return j
}

// systemNotices name the systems of targets whose support has ended, and those whose support ends
// within the next months.
func systemNotices(targets []matrix.Target, day time.Time) (notices []string) {
	var seen, ended, ending []string
	for _, t := range targets {
		end, known := t.System.EndOfLife.Advisory()
		if !known || slices.Contains(seen, t.System.ID) {
			continue
		}
		seen = append(seen, t.System.ID)
		text := fmt.Sprintf("%s (%s)", t.System.ID, end.Until)
		switch {
		case end.Warns(day):
			ended = append(ended, text)
		case end.Near(day):
			ending = append(ending, text)
		}
	}
	if len(ended) > 0 {
		notices = append(
			notices,
			"their distributions no longer support "+strings.Join(ended, ", "),
		)
	}
	if len(ending) > 0 {
		notices = append(
			notices,
			"their distributions' support ends soon for "+strings.Join(ending, ", "),
		)
	}
	return notices
}

// WithoutFabric returns a warning for each driver that people named and that comes without the
// fabric manager, although NVIDIA has one for it: which nodes its image is for, a build does not
// know.
func WithoutFabric(targets []matrix.Target, s matrix.Selection) (warnings []string) {
	if s.NoFabric {
		return nil
	}
	for _, t := range targets {
		version := t.Driver.Version
		// a vGPU sees no switches
		named := slices.Contains(s.Drivers, version) && t.Driver.VGPU == ""
		released := slices.Contains(matrix.Released(version), matrix.FabricManager)
		lacks := len(t.Driver.Components.Lacks(t.Arch, []string{matrix.FabricManager})) > 0
		text := fmt.Sprintf(
			"the matrix has no fabric manager for driver %s on %s: on nodes with NVLink switches (HGX, DGX) every CUDA program "+
				"fails with error 802; driver-build list shows the drivers that have one",
			version,
			t.Arch,
		)
		if named && released && lacks && !slices.Contains(warnings, text) {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// warn adds a warning, once.
func (j *Judgement) warn(kind, text string) {
	if w := (Warning{kind, text}); !slices.Contains(j.Warnings, w) {
		j.Warnings = append(j.Warnings, w)
	}
}

// Texts are the warnings without those of some kinds.
func (j *Judgement) Texts(without ...string) (all []string) {
	for _, w := range j.Warnings {
		if !slices.Contains(without, w.Kind) {
			all = append(all, w.Text)
		}
	}
	return all
}

// Deny returns an error if there are warnings of some kinds.
func (j *Judgement) Deny(kinds []string) error {
	var parts []string
	for _, k := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		n := len(
			slices.DeleteFunc(
				slices.Clone(j.Warnings),
				func(w Warning) bool { return w.Kind != k },
			),
		)
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d of kind %s", n, k))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Some, "--deny: there are warnings: "+strings.Join(parts, ", "))
}

// JudgePairs adds to pairs what is known of their drivers on a day, which of all drivers of their
// system are recommended and, with a release of CUDA, how they run it.
func JudgePairs(m *matrix.Matrix, pairs []Pair, day time.Time, r *releases.CUDA) {
	advice := map[string]releases.Advice{}
	for i := range pairs {
		p := &pairs[i]
		key := p.System + " " + p.Arch
		if _, ok := advice[key]; !ok {
			var drivers []matrix.Driver
			// names of the matrix
			targets, _ := m.Select(
				matrix.Selection{All: true, Systems: []string{p.System}, Archs: []string{p.Arch}},
			)
			for _, t := range targets {
				if r == nil || RunsCUDA(t.Driver, *r).Support != releases.CUDANone {
					drivers = append(drivers, t.Driver)
				}
			}
			advice[key] = releases.Recommend(drivers, day)
		}
		d := m.Drivers[slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == p.Driver })]
		p.Advisories, p.Recommended = releases.Notes(d, day), advice[key].Mark(p.Driver)
		if r != nil {
			answer := RunsCUDA(d, *r)
			p.Runs = &answer
		}
	}
}

// RunsCUDA says how a driver of the matrix runs a release of CUDA.
func RunsCUDA(d matrix.Driver, r releases.CUDA) releases.CUDAAnswer {
	return r.RunBy(d.Version, d.CUDA)
}

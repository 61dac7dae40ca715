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

// Judgement is what people should know about the drivers of some targets on a day.
type Judgement struct {
	Warnings []string
	Notices  []string // ends of life within the next months

	kinds map[string][]string // the warnings by kind
}

// Judge collects the advisories of the drivers of targets, and the kernels that break them. Drivers whose
// branches are no longer supported share a line.
func Judge(targets []matrix.Target, day time.Time) Judgement {
	j := Judgement{kinds: map[string][]string{}}
	var ended, ending, seen []string
	for _, t := range targets {
		if slices.Contains(seen, t.Driver.Version) {
			continue
		}
		seen = append(seen, t.Driver.Version)
		for _, n := range releases.Notes(t.Driver, day) {
			switch {
			case n.Kind == driverinfo.EndOfLife && n.Severity == releases.Warning:
				ended = append(ended, fmt.Sprintf("%s (%s)", t.Driver.Version, cmp.Or(n.Until, "over")))
			case n.Kind == driverinfo.EndOfLife && n.Near(day):
				ending = append(ending, fmt.Sprintf("%s (%s)", t.Driver.Version, n.Until))
			case n.Severity == releases.Warning:
				j.warn(n.Kind, fmt.Sprintf("driver %s is %s", t.Driver.Version, n.Text(day)))
			}
		}
	}
	slices.SortFunc(ended, matrix.CompareVersions)
	slices.SortFunc(ending, matrix.CompareVersions)
	if len(ended) > 0 {
		j.warn(driverinfo.EndOfLife, "NVIDIA no longer supports the branches of "+strings.Join(ended, ", "))
	}
	if len(ending) > 0 {
		j.Notices = append(j.Notices, "NVIDIA's support ends soon for the branches of "+strings.Join(ending, ", "))
	}
	j.warnKernels(targets)
	return j
}

// warnKernels warns of kernels that break drivers. Systems that share a reason share a line.
func (j *Judgement) warnKernels(targets []matrix.Target) {
	type limit struct{ driver, reason string }
	var limits []limit
	systems := map[limit][]string{}
	for _, t := range targets {
		for _, reason := range recipe.Limits(t) {
			l := limit{t.Driver.Version, reason}
			if systems[l] == nil {
				limits = append(limits, l)
			}
			if !slices.Contains(systems[l], t.System.ID) {
				systems[l] = append(systems[l], t.System.ID)
			}
		}
	}
	for _, l := range limits {
		j.warn(driverinfo.KernelBroken, fmt.Sprintf("driver %s on %s: %s", l.driver, strings.Join(systems[l], ", "), l.reason))
	}
}

// warn adds a warning, once.
func (j *Judgement) warn(kind, text string) {
	if slices.Contains(j.Warnings, text) {
		return
	}
	j.Warnings, j.kinds[kind] = append(j.Warnings, text), append(j.kinds[kind], text)
}

// Releases are the warnings about releases of the driver, without those about kernels of systems.
func (j *Judgement) Releases() []string {
	return slices.DeleteFunc(slices.Clone(j.Warnings), func(w string) bool { return slices.Contains(j.kinds[driverinfo.KernelBroken], w) })
}

// Deny returns an error if there are warnings of some kinds.
func (j *Judgement) Deny(kinds []string) error {
	var parts []string
	for _, k := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		if n := len(j.kinds[k]); n > 0 {
			parts = append(parts, fmt.Sprintf("%d of kind %s", n, k))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Some, "--deny: there are warnings: "+strings.Join(parts, ", "))
}

// JudgePairs adds to pairs what is known of their drivers on a day, which of all drivers of their system are
// recommended and, with a release of CUDA, how they run it.
func JudgePairs(m *matrix.Matrix, pairs []Pair, day time.Time, r *releases.CUDA) {
	advice := map[string]releases.Advice{}
	for i := range pairs {
		p := &pairs[i]
		key := p.System + " " + p.Arch
		if _, ok := advice[key]; !ok {
			var drivers []matrix.Driver
			targets, _ := m.Select(matrix.Selection{All: true, Systems: []string{p.System}, Archs: []string{p.Arch}}) // the names are the matrix's own
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

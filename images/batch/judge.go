package batch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/advisory"
	"github.com/driver-container/driver-container/images/cuda"
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
		for _, n := range advisory.Notes(t.Driver.Version, t.Driver.Advisories, day) {
			switch {
			case n.Kind == driverinfo.EndOfLife && n.Severity == advisory.Warning:
				ended = append(ended, fmt.Sprintf("%s (%s)", t.Driver.Version, cmp.Or(n.Until, "over")))
			case n.Kind == driverinfo.EndOfLife && n.Near(day):
				ending = append(ending, fmt.Sprintf("%s (%s)", t.Driver.Version, n.Until))
			case n.Severity == advisory.Warning:
				j.warn(n.Kind, fmt.Sprintf("driver %s is %s", t.Driver.Version, n.Text(day)))
			}
		}
	}
	slices.SortFunc(ended, releases.Compare)
	slices.SortFunc(ending, releases.Compare)
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
		j.warn(advisory.KernelBroken, fmt.Sprintf("driver %s on %s: %s", l.driver, strings.Join(systems[l], ", "), l.reason))
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
	return slices.DeleteFunc(slices.Clone(j.Warnings), func(w string) bool { return slices.Contains(j.kinds[advisory.KernelBroken], w) })
}

// Deny returns an error if there are warnings of some kinds.
func (j *Judgement) Deny(kinds []string) error {
	found := map[string]int{}
	for _, k := range kinds {
		if n := len(j.kinds[k]); n > 0 {
			found[k] = n
		}
	}
	return advisory.Denied(found)
}

// JudgePairs adds to pairs what is known of their drivers on a day, which of all drivers of their system are
// recommended and, with a release of CUDA, how they run it.
func JudgePairs(m *matrix.Matrix, pairs []Pair, day time.Time, r *cuda.Release) {
	advice := map[string]advisory.Advice{}
	for _, p := range pairs {
		key := p.System + " " + p.Arch
		if _, ok := advice[key]; ok {
			continue
		}
		var drivers []matrix.Driver
		targets, _ := m.Select(matrix.Selection{All: true, Systems: []string{p.System}, Archs: []string{p.Arch}}) // the names are the matrix's own
		for _, t := range targets {
			if r == nil || RunsCUDA(t.Driver, *r).Support != cuda.None {
				drivers = append(drivers, t.Driver)
			}
		}
		advice[key] = advisory.Recommend(drivers, day)
	}
	for _, d := range m.Drivers {
		notes := advisory.Notes(d.Version, d.Advisories, day)
		for i := range pairs {
			if pairs[i].Driver != d.Version {
				continue
			}
			pairs[i].Advisories, pairs[i].Recommended = notes, advice[pairs[i].System+" "+pairs[i].Arch].Mark(d.Version)
			if r != nil {
				answer := RunsCUDA(d, *r)
				pairs[i].Runs = &answer
			}
		}
	}
}

// JudgeBranches adds to branches what is known of their releases on a day, which drivers of the matrix are
// recommended and, with a release of CUDA, how they run it. A version that the matrix states counts.
func JudgeBranches(m *matrix.Matrix, branches []releases.Coverage, day time.Time, r *cuda.Release) {
	advice := advisory.Recommend(m.Drivers, day)
	stated := map[string]string{}
	for _, d := range m.Drivers {
		stated[d.Version] = d.CUDA
	}
	runs := func(version string, v cuda.Version) string {
		if r == nil || version == "" {
			return ""
		}
		return string(r.Judge(version, v).Support)
	}
	for i, b := range branches {
		branches[i].RunsCUDA = runs(b.Newest, cuda.Of(b.Newest, cmp.Or(stated[b.Newest], b.CUDA)))
		for k := range b.Releases {
			one := &b.Releases[k]
			v := cuda.Of(one.Version, stated[one.Version])
			one.Recommended = advice.Mark(one.Version)
			one.CUDA, one.RunsCUDA = v.String(), runs(one.Version, v)
			one.Advisories = slices.DeleteFunc(m.AdvisoriesOf(one.Version), func(a driverinfo.Advisory) bool { return a.Kind == driverinfo.EndOfLife })
		}
	}
}

// RequireCUDA returns the release of CUDA that a text names: one of the table, or one that a driver of the
// matrix states.
func RequireCUDA(m *matrix.Matrix, text string) (cuda.Release, error) {
	var stated []string
	for _, d := range m.Drivers {
		stated = append(stated, d.CUDA)
	}
	return cuda.Require(text, stated)
}

// RunsCUDA says how a driver of the matrix runs a release of CUDA.
func RunsCUDA(d matrix.Driver, r cuda.Release) cuda.Answer {
	return r.Judge(d.Version, cuda.Of(d.Version, d.CUDA))
}

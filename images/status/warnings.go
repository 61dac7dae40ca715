package status

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

// Warnings are what people should know about the drivers of some targets on a day.
type Warnings struct {
	All     []Warning // each once
	Notices []string  // ends of life within the next months

	scores []float64 // the highest of each driver that has known CVEs
}

// WarningsOf collects the advisories of the drivers of targets, and the kernels that break them.
// Drivers whose branches are no longer supported share a line, and so do systems that share a
// reason.
func WarningsOf(targets []matrix.Target, advisor releases.Advisor) (w Warnings) {
	w.addDrivers(targets, advisor)
	w.addSystems(targets, advisor.Day)
	w.addKernels(targets)
	return w
}

// addDrivers adds what is known of each driver, in the order of the versions.
func (w *Warnings) addDrivers(targets []matrix.Target, advisor releases.Advisor) {
	day := advisor.Day
	var ended, ending, vulnerable []string
	compare := func(a, b matrix.Target) int {
		return matrix.CompareVersions(a.Driver.Version, b.Driver.Version)
	}
	drivers := slices.SortedStableFunc(slices.Values(targets), compare)
	same := func(a, b matrix.Target) bool { return compare(a, b) == 0 }
	for _, t := range slices.CompactFunc(drivers, same) {
		version := t.Driver.Version
		exposure := advisor.Vulnerabilities().Exposure(version)
		if exposure != nil {
			vulnerable = append(vulnerable, version+" ("+exposure.Explain()+")")
			w.scores = append(w.scores, exposure.Highest)
		}
		for _, n := range advisor.Notes(t.Driver) {
			switch {
			case n.Kind == driverinfo.EndOfLife && n.Severity == releases.Warning:
				ended = append(ended, fmt.Sprintf("%s (%s)", version, cmp.Or(n.Until, "over")))
			case n.Kind == driverinfo.EndOfLife && n.Near(day):
				ending = append(ending, fmt.Sprintf("%s (%s)", version, n.Until))
			case n.Severity == releases.Warning:
				w.add(n.Kind, fmt.Sprintf("driver %s is %s", version, n.Text(day)))
			}
		}
	}
	if len(ended) > 0 {
		text := "NVIDIA no longer supports the branches of " + strings.Join(ended, ", ")
		w.add(driverinfo.EndOfLife, text)
	}
	if len(vulnerable) > 0 {
		w.add(releases.Vulnerable, "by NVIDIA's bulletins, driver "+strings.Join(vulnerable, "; "))
	}
	w.notice("NVIDIA's support ends soon for the branches of ", ending)
}

// addSystems names the systems whose support has ended, and those whose support ends within the
// next months.
func (w *Warnings) addSystems(targets []matrix.Target, day time.Time) {
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
	w.notice("their distributions no longer support ", ended)
	w.notice("their distributions' support ends soon for ", ending)
}

// addKernels names the kernels of systems on which modules do not work.
func (w *Warnings) addKernels(targets []matrix.Target) {
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
		on := strings.Join(systems[l], ", ")
		w.add(driverinfo.KernelBroken, "driver "+l.driver+" on "+on+": "+l.reason)
	}
}

// add adds a warning, once.
func (w *Warnings) add(kind, text string) {
	one := Warning{kind, text}
	if !slices.Contains(w.All, one) {
		w.All = append(w.All, one)
	}
}

// notice adds a notice about some names, if there are any.
func (w *Warnings) notice(text string, names []string) {
	if len(names) > 0 {
		w.Notices = append(w.Notices, text+strings.Join(names, ", "))
	}
}

// Texts are the warnings without those of some kinds.
func (w *Warnings) Texts(without ...string) (all []string) {
	for _, one := range w.All {
		if !slices.Contains(without, one.Kind) {
			all = append(all, one.Text)
		}
	}
	return all
}

// Deny returns an error if there are warnings of some kinds. vulnerable=SCORE is about drivers with
// a CVE of this score or a higher one.
func (w *Warnings) Deny(kinds []string) error {
	count := map[string]int{}
	for _, one := range w.All {
		count[one.Kind]++
	}
	var parts []string
	for _, k := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		score, ok := releases.ParseVulnerable(k)
		if ok {
			isLower := func(highest float64) bool { return highest < score }
			count[k] = len(slices.DeleteFunc(slices.Clone(w.scores), isLower))
		}
		if count[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d of kind %s", count[k], k))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Some, "--deny: there are warnings: "+strings.Join(parts, ", "))
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
			"the matrix has no fabric manager for driver %s on %s: on nodes with NVLink switches "+
				"(HGX, DGX) every CUDA program fails with error 802; driver-build list shows the "+
				"drivers that have one",
			version,
			t.Arch,
		)
		if named && released && lacks && !slices.Contains(warnings, text) {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// AddAdvisories adds to pairs what is known of their drivers, which of all drivers of their system
// are recommended and, with a release of CUDA, how they run it.
func AddAdvisories(m *matrix.Matrix, pairs []Pair, advisor releases.Advisor, cuda *releases.CUDA) {
	advice := map[string]releases.Advice{}
	for i := range pairs {
		p := &pairs[i]
		platform := p.System + " " + p.Arch
		_, known := advice[platform]
		if !known {
			advice[platform] = recommend(m, p.System, p.Arch, advisor, cuda)
		}
		at := slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == p.Driver })
		p.Advisories = advisor.Notes(m.Drivers[at])
		p.Exposure = advisor.Vulnerabilities().Exposure(p.Driver)
		p.Recommended = advice[platform].Mark(p.Driver)
		if cuda != nil {
			answer := cuda.RunByDriver(m.Drivers[at])
			p.Runs = &answer
		}
	}
}

// recommend says which drivers of a platform to take, of those that run a release of CUDA.
func recommend(
	m *matrix.Matrix,
	system, arch string,
	advisor releases.Advisor,
	cuda *releases.CUDA,
) releases.Advice {
	s := matrix.Selection{All: true, Systems: []string{system}, Archs: []string{arch}}
	targets, _ := m.Select(s) // names of the matrix
	var drivers []matrix.Driver
	for _, t := range targets {
		if cuda == nil || cuda.RunByDriver(t.Driver).Support != releases.CUDANone {
			drivers = append(drivers, t.Driver)
		}
	}
	return advisor.Recommend(drivers)
}

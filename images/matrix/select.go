package matrix

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
)

// Select returns the targets of a selection in the order of the matrix: by system, driver,
// architecture.
//
// The errors for names that are not in the matrix, or for pairs that cannot work (an
// [IncompatibleError]), come all together (errors.Join), names first. With All, it omits pairs that
// cannot work; [Matrix.Impossible] returns them. Without All, a selection needs systems and
// drivers.
//
// A pair that is selected in spite of a rule has that rule in Target.Overridden.
func (m *Matrix) Select(s Selection) (targets []Target, err error) {
	if !s.All && (len(s.Systems) == 0 || len(s.Drivers) == 0) {
		return nil, failure.New(
			failure.Usage,
			"nothing selected: name at least one system and one driver, or select all",
		)
	}
	if err := m.unknown(s); err != nil {
		return nil, err
	}
	for _, c := range m.Candidates(s) {
		if len(c.Broken) == 0 {
			targets = append(targets, c.Target)
		}
		for _, broken := range c.Broken {
			if !s.All {
				err = errors.Join(err, broken)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return targets, nil
}

// Impossible returns the pairs of a selection that cannot work, one entry for each rule that
// forbids it, in the order of the matrix. Unknown names in the selection match nothing.
func (m *Matrix) Impossible(s Selection) (bad []*IncompatibleError) {
	s.All = true
	for _, c := range m.Candidates(s) {
		bad = append(bad, c.Broken...)
	}
	return bad
}

// unknown returns an error for every name that is not in the matrix.
func (m *Matrix) unknown(s Selection) (err error) {
	const list = ": driver-build list shows those of the matrix"
	check := func(kind string, asked, among []string, hint string) {
		for _, name := range asked {
			near := ""
			for _, row := range m.Systems { // also by the names that the GPU Operator asks for
				isName := slices.Contains(row.Aliases, name) || strings.HasPrefix(name, row.ID)
				if kind == "system" && near == "" && isName {
					near = row.ID
				}
			}
			err = errors.Join(err, checkName(kind, name, among, near, hint))
		}
	}
	systems := names(m.Systems, func(s System) string { return s.ID })
	companions := append([]string{AllCompanions}, driverinfo.Companions()...)
	check("system", s.Systems, systems,
		list+"; a name that the GPU Operator asks for, such as rhcos4.18, is an alias of a row")
	check("driver", s.Drivers, m.versions(), list)
	check("architecture", s.Archs, knownArchs, oneOfThem(knownArchs))
	check("flavour", s.Flavours, knownFlavours, oneOfThem(knownFlavours))
	check("companion", s.Companions, companions, list)
	return err
}

func oneOfThem(words []string) string { return ": it is one of " + strings.Join(words, ", ") }

// Archs are the architectures that driver images are made for.
func Archs() []string { return slices.Clone(knownArchs) }

// CheckArch returns an error for what is no architecture of driver images.
func CheckArch(arch string) error {
	return checkName("architecture", arch, knownArchs, "", oneOfThem(knownArchs))
}

// synonyms are names that other programs use.
var synonyms = map[string]string{
	"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "armv8": "arm64", "closed": Proprietary, "kernel-open": Open,
}

// checkName returns an error for a name that is not among some, with the nearest ones or else a
// hint.
func checkName(kind, name string, among []string, near, hint string) error {
	if slices.Contains(among, name) {
		return nil
	}
	word := strings.ToLower(name)
	nearest := distros.Nearest(name, among)
	switch branch, ok := strings.CutPrefix(word, "r"); {
	case near != "":
		nearest = []string{near}
	case slices.Contains(among, synonyms[word]):
		nearest = []string{synonyms[word]}
	case ok && kind == "driver":
		nearest = distros.Nearest(branch, among) // R535
	}
	return failure.Errorf(failure.Usage, "unknown %s %s%s", kind, quoted(name), cmp.Or(didYouMean(nearest), hint))
}

// Candidate is a combination of a selection, with the rules that forbid it.
type Candidate struct {
	Target
	Broken []*IncompatibleError
}

// Candidates returns all combinations of a selection, possible or not, in the order of the matrix.
// Unknown names match nothing.
func (m *Matrix) Candidates(s Selection) (all []Candidate) {
	for _, sys := range m.Systems {
		if !selected(s.Systems, sys.ID, s.All) {
			continue
		}
		distro, err := distros.Lookup(sys.ID)
		if err != nil {
			continue // not reached: the ids of a parsed matrix are known
		}
		for _, drv := range m.Drivers {
			if !selected(s.Drivers, drv.Version, s.All) {
				continue
			}
			flavours := drv.Flavours
			if s.NoFabric {
				drv.Components = nil
			}
			if s.NoPatches {
				drv.Patches = nil
				drv.Kernel = drv.Unpatched
			}
			if len(s.Flavours) > 0 {
				flavours = inOrder(knownFlavours, s.Flavours)
			}
			for _, arch := range s.ArchsOf(sys) {
				if s.All && !slices.Contains(sys.Archs, arch) {
					continue
				}
				all = append(all, m.candidate(s, Target{
					System:   sys,
					Distro:   distro,
					Driver:   drv,
					Arch:     arch,
					Flavours: slices.Clone(flavours),
				}))
			}
		}
	}
	return all
}

// candidate applies the rules to a target, and gives it its companions.
func (m *Matrix) candidate(s Selection, t Target) Candidate {
	broken := slices.DeleteFunc(m.broken(t), func(r *IncompatibleError) bool {
		overridden := s.AllowIncompatible && r.Overridable
		if overridden {
			t.Overridden = append(t.Overridden, r.Rule+": "+r.Reason)
		}
		return overridden
	})
	var missing []*IncompatibleError
	t.Companions, missing = m.companions(t, s.Companions)
	if !s.All && !s.IfTheyFit {
		return Candidate{t, append(broken, missing...)}
	}
	for i := range t.Companions { // each target has what fits it
		t.Companions[i].Named = false
	}
	return Candidate{t, broken}
}

// ArchsOf returns the selected architectures. Without any it is amd64, or for a system without
// amd64 what it has: the same on every machine, so that all commands mean the same images.
func (s Selection) ArchsOf(sys System) []string {
	switch {
	case len(s.Archs) > 0:
		return inOrder(knownArchs, s.Archs)
	case len(sys.Archs) > 0 && !slices.Contains(sys.Archs, "amd64"):
		return inOrder(knownArchs, sys.Archs)
	default:
		return []string{"amd64"}
	}
}

// selected reports whether a name is selected. With all, an empty list selects everything.
func selected(names []string, name string, all bool) bool {
	return slices.Contains(names, name) || all && len(names) == 0
}

// inOrder returns the words of order that are in some, each once.
func inOrder(order, some []string) []string {
	return slices.DeleteFunc(
		slices.Clone(order),
		func(w string) bool { return !slices.Contains(some, w) },
	)
}

func (m *Matrix) versions() []string {
	return names(m.Drivers, func(d Driver) string { return d.Version })
}

// names returns the name of each row.
func names[T any](rows []T, name func(T) string) []string {
	all := make([]string, len(rows))
	for i, row := range rows {
		all[i] = name(row)
	}
	return all
}

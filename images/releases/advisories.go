package releases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// The severities of a note.
const (
	Warning = "warning"
	Notice  = "notice" // an end of life that is still to come
)

// Note is an advisory as it is on a day.
type Note struct {
	driverinfo.Advisory `yaml:",inline"`
	// warning, or notice: an end of life that is still to come
	Severity string `json:"severity" yaml:"severity"`
}

// Notes are the advisories of a driver of the matrix on a day.
func Notes(d matrix.Driver, day time.Time) (all []Note) {
	for _, a := range AdvisoriesOf(d) {
		n := Note{a, Notice}
		if a.Warns(day) {
			n.Severity = Warning
		}
		all = append(all, n)
	}
	return all
}

// AdvisoriesOf returns the advisories of a driver of the matrix, and the end of life of its branch
// unless the matrix has one.
func AdvisoriesOf(d matrix.Driver) (all []driverinfo.Advisory) {
	for _, a := range d.Advisories {
		all = append(all, a.Advisory)
	}
	stated := func(a driverinfo.Advisory) bool { return a.Kind == driverinfo.EndOfLife }
	b, _ := Builtin().Branch(d.Version)
	if b.End == "" || slices.ContainsFunc(all, stated) {
		return all
	}
	return append(all, driverinfo.Advisory{
		ID:     "end-of-life-" + strings.ToLower(b.Name),
		Kind:   driverinfo.EndOfLife,
		Until:  strings.TrimPrefix(b.End, EndPassed),
		Source: b.EndSource,
	})
}

// WarningKinds are all types of warnings.
func WarningKinds() []string {
	return []string{driverinfo.EndOfLife, driverinfo.KnownBad, driverinfo.KernelBroken}
}

// CheckWarningKind says whether a word is a kind of warning, or all.
func CheckWarningKind(word string) error {
	if known := append(WarningKinds(), "all"); !slices.Contains(known, word) {
		return fmt.Errorf(
			"%.40q is no kind of warning: it is one of %s",
			word,
			strings.Join(known, ", "),
		)
	}
	return nil
}

// Advice is which of some drivers to take: what list, drivers, gpus and fleet recommend. A driver
// whose fabric manager is not known is none for machines with NVLink switches; if the best one is
// such a driver, there is a mark for the best of the others too.
type Advice struct {
	Driver  string // the best by [Order]; "" if there are none
	Support string // of its branch: "production until 2027-03"
	// the best of a branch with long-term support that has not ended; "" if there is none
	LongTerm string

	marks map[string]string
}

// Recommend chooses among drivers on a day. It leaves out those for vGPU guests, which need a
// licence.
func Recommend(drivers []matrix.Driver, day time.Time) Advice {
	a := Advice{marks: map[string]string{}}
	var all, longTerm []rated
	for _, d := range drivers {
		if d.VGPU == "" {
			all = append(all, rate(d, day))
		}
	}
	slices.SortStableFunc(all, rated.order)
	for _, r := range all {
		if r.kind == LongTerm {
			longTerm = append(longTerm, r)
		}
	}
	if len(all) > 0 {
		a.Driver = all[0].version
		a.Support = all[0].support()
	}
	if len(longTerm) > 0 && longTerm[0].rank() == 0 {
		a.LongTerm = longTerm[0].version
	}
	a.mark(all)
	a.mark(longTerm)
	return a
}

// mark marks the best of some drivers, the best first, and the best of those for machines with
// NVLink switches.
func (a *Advice) mark(some []rated) {
	whole := slices.IndexFunc(some, func(r rated) bool { return r.switches })
	for i, r := range some {
		best := i == 0 || i == whole
		if !best || r.rank() > 0 || a.marks[r.version] != "" {
			continue
		}
		text := "recommended"
		if i > 0 {
			text += " with NVLink switches"
		}
		text += ": " + r.support()
		if i != whole {
			text += " (not with NVLink switches)"
		}
		a.marks[r.version] = text
	}
}

// Mark says of a version that it is recommended, and how long NVIDIA supports it; "" of any other.
func (a Advice) Mark(version string) string { return a.marks[version] }

// Order compares drivers on a day, the better one first: one of a branch that NVIDIA recommends for
// production (long-term or not) and supports, then one of another supported branch, then the rest;
// of these one that is not known to be bad; of these the newest.
func Order(x, y matrix.Driver, day time.Time) int { return rate(x, day).order(rate(y, day)) }

// rated is what is known of a driver on a day.
type rated struct {
	version, until string // until: the last month of support, where it is known
	kind           BranchType
	ended          bool
	// 1: it is known to be bad, for all nodes, or another release has that mended
	faults   int
	switches bool // its fabric manager is known
}

func rate(d matrix.Driver, day time.Time) rated {
	b, _ := Builtin().Branch(d.Version)
	r := rated{
		version:  d.Version,
		kind:     b.Type,
		switches: len(d.Components[matrix.FabricManager]) > 0,
	}
	for _, a := range AdvisoriesOf(d) {
		if a.Kind == driverinfo.EndOfLife {
			r.until = a.Until
			r.ended = a.Warns(day)
		}
	}
	for _, a := range d.Advisories {
		// else it is bad for some nodes as all of its branch is
		everywhere := a.Affects == "" || a.Fixed != ""
		if a.Kind == driverinfo.KnownBad && a.Nodes == nil && everywhere {
			r.faults = 1
		}
	}
	return r
}

func (r rated) order(o rated) int {
	return cmp.Or(
		cmp.Compare(r.rank(), o.rank()),
		cmp.Compare(r.faults, o.faults),
		matrix.CompareVersions(o.version, r.version),
	)
}

func (r rated) rank() int {
	switch {
	case r.ended:
		return 2
	case r.kind == Production || r.kind == LongTerm:
		return 0
	}
	return 1
}

// support says how long NVIDIA supports a driver's branch: "LTS until 2028-06", "over since
// 2024-07".
func (r rated) support() string {
	words := cmp.Or(string(r.kind), "supported")
	before := " until "
	switch {
	case r.ended:
		words = "over"
		before = " since "
	case r.kind == LongTerm:
		words = "LTS"
	}
	if r.until == "" {
		return words
	}
	return words + before + r.until
}

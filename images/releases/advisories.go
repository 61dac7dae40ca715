package releases

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
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

// Advisor judges drivers by what is known of them.
type Advisor struct {
	Day   time.Time           // on which support has ended or has not
	Known *VulnerabilityTable // nil: the built-in one
}

// Vulnerabilities returns the table that the advisor goes by.
func (a Advisor) Vulnerabilities() *VulnerabilityTable {
	if a.Known != nil {
		return a.Known
	}
	return BuiltinVulnerabilities()
}

// Notes are the advisories of a driver of the matrix. Its vulnerabilities are not among them.
func (a Advisor) Notes(d matrix.Driver) (all []Note) {
	for _, one := range AdvisoriesOf(d) {
		n := Note{one, Notice}
		if one.Warns(a.Day) {
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

// Vulnerable is the kind of warning about a driver with known CVEs.
const Vulnerable = "vulnerable"

// WarningKinds are all types of warnings.
func WarningKinds() []string {
	return []string{driverinfo.EndOfLife, driverinfo.KnownBad, driverinfo.KernelBroken, Vulnerable}
}

// ParseVulnerable returns the score of vulnerable=SCORE, 0 for the word alone. ok is false for
// another kind of warning.
func ParseVulnerable(kind string) (score float64, ok bool) {
	rest, ok := strings.CutPrefix(kind, Vulnerable)
	if !ok || rest == "" {
		return 0, ok
	}
	text, ok := strings.CutPrefix(rest, "=")
	score, err := strconv.ParseFloat(text, 64)
	return score, ok && err == nil && score >= 0 && score <= maxScore
}

// CheckWarningKind says whether a word is a kind of warning, or all.
func CheckWarningKind(word string) error {
	known := append(WarningKinds(), Vulnerable+"=SCORE", "all")
	_, ok := ParseVulnerable(word)
	if ok || slices.Contains(known, word) {
		return nil
	}
	const format = "%.40q is no kind of warning: it is one of %s; SCORE is one of CVSS, 0 to 10"
	return fmt.Errorf(format, word, strings.Join(known, ", "))
}

// Advice is which of some drivers to take: what list, drivers, gpus and fleet recommend. A driver
// whose fabric manager is not known is none for machines with NVLink switches; if the best one is
// such a driver, there is a mark for the best of the others too.
type Advice struct {
	Driver  string // the best by [Advisor.Order]; "" if there are none
	Support string // of its branch: "production until 2027-03"
	// the best of a branch with long-term support that has not ended; "" if there is none
	LongTerm string

	marks map[string]string
}

// Recommend chooses among drivers. It leaves out those for vGPU guests, which need a licence.
func (a Advisor) Recommend(drivers []matrix.Driver) Advice {
	advice := Advice{marks: map[string]string{}}
	var all, longTerm []rated
	for _, d := range drivers {
		if d.VGPU == "" {
			all = append(all, a.rate(d))
		}
	}
	slices.SortStableFunc(all, rated.order)
	for _, r := range all {
		if r.kind == LongTerm {
			longTerm = append(longTerm, r)
		}
	}
	if len(all) > 0 {
		advice.Driver = all[0].version
		advice.Support = all[0].support()
	}
	if len(longTerm) > 0 && longTerm[0].rank() == 0 {
		advice.LongTerm = longTerm[0].version
	}
	advice.mark(all)
	advice.mark(longTerm)
	return advice
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

// Order compares drivers, the better one first: one of a branch that NVIDIA recommends for
// production (long-term or not) and supports, then one of another supported branch, then the rest;
// of these one that is not known to be bad; of these one without a known CVE; of these the newest.
func (a Advisor) Order(x, y matrix.Driver) int { return a.rate(x).order(a.rate(y)) }

// Support says how long NVIDIA supports a driver's branch, "LTS until 2028-06", and whether that is
// over.
func (a Advisor) Support(d matrix.Driver) (text string, over bool) {
	r := a.rate(d)
	return r.support(), r.ended
}

// rated is what is known of a driver on a day.
type rated struct {
	version, until string // until: the last month of support, where it is known
	kind           BranchType
	ended          bool
	// 1: it is known to be bad, for all nodes, or another release has that mended
	faults     int
	vulnerable int  // 1: it has known CVEs
	switches   bool // its fabric manager is known
}

func (a Advisor) rate(d matrix.Driver) rated {
	b, _ := Builtin().Branch(d.Version)
	r := rated{
		version:  d.Version,
		kind:     b.Type,
		switches: len(d.Components[matrix.FabricManager]) > 0,
	}
	if len(a.Vulnerabilities().Of(d.Version)) > 0 {
		r.vulnerable = 1
	}
	for _, one := range AdvisoriesOf(d) {
		if one.Kind == driverinfo.EndOfLife {
			r.until = one.Until
			r.ended = one.Warns(a.Day)
		}
	}
	for _, one := range d.Advisories {
		// else it is bad for some nodes as all of its branch is
		everywhere := one.Affects == "" || one.Fixed != ""
		if one.Kind == driverinfo.KnownBad && one.Nodes == nil && everywhere {
			r.faults = 1
		}
	}
	return r
}

func (r rated) order(o rated) int {
	return cmp.Or(
		cmp.Compare(r.rank(), o.rank()),
		cmp.Compare(r.faults, o.faults),
		cmp.Compare(r.vulnerable, o.vulnerable),
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

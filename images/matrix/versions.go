package matrix

import (
	"strings"
	"sync"

	"github.com/hashicorp/go-version"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// none is the version of a text that has none. It is older than all others.
var none = version.Must(version.NewVersion("0"))

// versions and ranges keep what was parsed, by its text: a matrix has a few hundred versions and
// compares them many thousand times, and to parse one takes several times as long as to compare
// two.
var (
	versions sync.Map // string -> *version.Version
	ranges   sync.Map // driverinfo.Span -> version.Constraints
)

// parse returns a version, or the name of a branch as one: R535 is 535. Numbers at the end that are
// missing are 0, and so are leading zeros nothing: NVIDIA's 418.113 is 418.113.00, and 418.87.1 is
// 418.87.01.
func parse(text string) *version.Version {
	kept, _ := versions.Load(text)
	known, ok := kept.(*version.Version)
	if ok {
		return known
	}
	parsed, err := version.NewVersion(strings.TrimPrefix(text, "R"))
	if err != nil { // of a matrix never: the forms of versions are checked
		return none
	}
	versions.Store(text, parsed)
	return parsed
}

// CompareVersions orders versions, and names of branches, by their fields as numbers: 418.87.01 <
// 418.113 < R535, and 418.87.1 equals 418.87.01. A text that is no version is older than all that
// are.
func CompareVersions(a, b string) int { return parse(a).Compare(parse(b)) }

// inRange reports whether a version is in a range; an end that is "" is none.
func inRange(version string, span driverinfo.Span) bool {
	return constraints(span).Check(parse(version))
}

// constraints returns a range as one: ">= 535, < 560". The forms of its ends are checked.
func constraints(span driverinfo.Span) version.Constraints {
	kept, _ := ranges.Load(span)
	known, ok := kept.(version.Constraints)
	if ok {
		return known
	}
	var ends version.Constraints
	if span.From != "" {
		ends = append(ends, version.MustConstraints(version.NewConstraint(">="+span.From))...)
	}
	if span.Below != "" {
		ends = append(ends, version.MustConstraints(version.NewConstraint("<"+span.Below))...)
	}
	ranges.Store(span, ends)
	return ends
}

// Major returns the number of a branch: 470 for "R470" and "470.256.02"; 0 if there is none.
func Major(version string) int { return parse(version).Segments()[0] }

// canonical returns the form of a version that is the same for equal releases: 418.113.0 for
// 418.113.
func canonical(version string) string { return parse(version).String() }

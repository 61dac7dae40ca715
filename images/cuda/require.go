package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/releases"
)

// Support says how a driver runs a release of CUDA.
type Support string

// The kinds of support.
const (
	Native Support = "native"        // nothing is missing
	Minor  Support = "minor-version" // by minor-version compatibility: with limits
	None   Support = "none"
)

// firstMinor is the first major version with minor-version compatibility.
const firstMinor = 11

// Answer says how a driver runs a release of CUDA, and why.
type Answer struct {
	Support Support `json:"support" yaml:"support"`
	Highest string  `json:"highest,omitempty" yaml:"highest,omitempty"` // the highest release that the driver runs natively
	Why     string  `json:"why,omitempty" yaml:"why,omitempty"`         // the limits, or what is needed
}

// Require returns the release that a text names. further are releases that drivers of the matrix state, which
// the table may lack. The error is for people: it names the nearest release.
func Require(text string, further []string) (Release, error) {
	v, ok := ParseVersion(text)
	if !ok {
		parts := strings.Split(text, ".")
		if v, ok = ParseVersion(strings.Join(parts[:min(2, len(parts))], ".")); ok {
			return Release{}, fmt.Errorf("%.40q is no release of CUDA for drivers: give its first two numbers, %s; updates of a release have the same drivers", text, v)
		}
		return Release{}, fmt.Errorf("%.40q is no release of CUDA, such as 12.8", text)
	}
	known := Releases()
	nearest := known[0]
	for _, r := range known {
		if r.Version == v {
			return r, nil
		}
		if r.Version.Compare(v) < 0 {
			nearest = r
		}
	}
	switch {
	case nearest.Version.Major != v.Major:
		return Release{}, fmt.Errorf("no CUDA %s is known: the table of driver-build has %s to %s", v, known[0].Version, known[len(known)-1].Version)
	case slices.Contains(further, v.String()) && v.Major >= firstMinor:
		return Release{Version: v, Floor: nearest.Floor, From: "matrix"}, nil
	}
	return Release{}, fmt.Errorf("no CUDA %s is known: the nearest is %s", v, nearest.Version)
}

// Judge says how a driver runs the release. highest is the highest release that the driver runs natively.
func (r Release) Judge(driver string, highest Version) Answer {
	a := Answer{Support: Native, Highest: highest.String()}
	if highest.Compare(r.Version) >= 0 {
		return a
	}
	has := "has CUDA " + a.Highest
	if a.Highest == "" {
		has = "is older than any CUDA that is known"
	}
	switch {
	case r.Version.Major >= firstMinor && releases.Compare(driver, r.Floor) >= 0:
		a.Support = Minor
		a.Why = fmt.Sprintf("driver %s %s: programs of %s run by minor-version compatibility, but it compiles no PTX of %s, "+
			"and calls that need a newer driver fail", driver, has, r.Version, r.Version)
	default:
		a.Support = None
		a.Why = fmt.Sprintf("driver %s %s; CUDA %s needs %s or newer%s", driver, has, r.Version, r.Floor, r.compatPackage())
	}
	return a
}

// Explain says in one sentence what runs the release, and with which limits.
func (r Release) Explain() string {
	text := fmt.Sprintf("CUDA %s needs driver %s or newer%s", r.Version, r.Floor, r.compatPackage())
	if r.Native == r.Floor {
		return text
	}
	limits := "minor-version means that the driver compiles no PTX of " + r.Version.String() + " and that calls that need a newer driver fail"
	if r.Native == "" {
		return text + "; " + limits
	}
	return fmt.Sprintf("%s; from %s on nothing is missing, below %s", text, r.Native, limits)
}

// compatPackage says what runs the release on an older driver all the same.
func (r Release) compatPackage() string {
	if r.Version.Major < firstCompat {
		return ""
	}
	return fmt.Sprintf(", or the package cuda-compat-%d-%d in the application's image, on data center GPUs only", r.Version.Major, r.Version.Minor)
}

// firstCompat is the first major version with a package cuda-compat.
const firstCompat = 10

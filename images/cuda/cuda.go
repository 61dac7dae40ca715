// Package cuda says which drivers run which release of CUDA: natively, by minor-version compatibility, or not
// at all. It has a built-in table of the releases of CUDA with their drivers.
//
// It knows neither GPUs nor images: nothing of CUDA is in a driver image but libcuda.
package cuda

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/releases"
)

//go:embed releases.tsv
var table string

// Version is a release of CUDA: 12.8.
type Version struct{ Major, Minor int }

// String returns "12.8", and "" for the zero value.
func (v Version) String() string {
	if v == (Version{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// Compare orders versions.
func (v Version) Compare(other Version) int {
	return slices.Compare([]int{v.Major, v.Minor}, []int{other.Major, other.Minor})
}

var shape = regexp.MustCompile(`^([1-9][0-9]?)\.([0-9]{1,2})$`)

// ParseVersion reads "12.8"; ok is false for any other form.
func ParseVersion(text string) (v Version, ok bool) {
	m := shape.FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	v.Major, _ = strconv.Atoi(m[1]) // at most two digits
	v.Minor, _ = strconv.Atoi(m[2])
	return v, true
}

// Release is a release of CUDA with its drivers.
type Release struct {
	Version Version
	Floor   string // the lowest driver that runs it
	Native  string // the first driver that came with it; "" if that is not known
	From    string // letters, which the head of the table explains
}

// Releases are the releases of the built-in table, rising.
func Releases() (all []Release) {
	for line := range strings.Lines(table) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		v, ok := ParseVersion(f[0])
		if !ok || len(f) != 4 {
			continue // the head; TestTable refuses any other line
		}
		all = append(all, Release{Version: v, Floor: f[1], Native: f[2], From: f[3]})
	}
	return all
}

// Highest returns the highest release that a driver runs natively, the zero Version for a driver before the
// table. A driver of a branch that the table does not name has at least this one.
func Highest(driver string) (v Version) {
	for _, r := range Releases() {
		if releases.Compare(r.Native, driver) <= 0 {
			v = r.Version
		}
	}
	return v
}

// Of returns the highest release that a driver runs natively: what its entry in the matrix says, "" if that
// is nothing, or what the table says.
func Of(driver, stated string) Version {
	if v, ok := ParseVersion(stated); ok {
		return v
	}
	return Highest(driver)
}

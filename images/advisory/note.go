package advisory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
)

// KernelBroken is the kind of what package recipe finds: kernels that break a driver.
const KernelBroken = driverinfo.KernelBroken

// The severities of a note.
const (
	Warning = "warning"
	Notice  = "notice" // an end of life that is still to come
)

// Note is an advisory as it is on a day.
type Note struct {
	driverinfo.Advisory `yaml:",inline"`
	Severity            string `json:"severity" yaml:"severity"` // warning, or notice: an end of life that is still to come
}

// Notes are the advisories of a release on a day; stated are those of the matrix.
func Notes(version string, stated []driverinfo.Advisory, day time.Time) (all []Note) {
	for _, a := range With(version, stated) {
		n := Note{a, Notice}
		if a.Warns(day) {
			n.Severity = Warning
		}
		all = append(all, n)
	}
	return all
}

// Kinds are all kinds of warnings.
func Kinds() []string { return []string{driverinfo.EndOfLife, driverinfo.KnownBad, KernelBroken} }

// ParseKinds returns the kinds that words name; all stands for every kind.
func ParseKinds(words []string) (kinds []string, err error) {
	for _, w := range words {
		switch {
		case w == "all":
			return Kinds(), nil
		case !slices.Contains(Kinds(), w):
			if near := distros.Nearest(w, append(Kinds(), "all")); len(near) > 0 {
				return nil, fmt.Errorf("%.40q is no kind of warning: did you mean %s?", w, near[0])
			}
			return nil, fmt.Errorf("%.40q is no kind of warning: it is one of %s, all", w, strings.Join(Kinds(), ", "))
		}
		kinds = append(kinds, w)
	}
	return kinds, nil
}

// Denied is the error about warnings of denied kinds: how many there are of each. The warnings themselves have
// been printed. It is nil if there are none.
func Denied(found map[string]int) error {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(found)) {
		parts = append(parts, fmt.Sprintf("%d of kind %s", found[k], k))
	}
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Some, "--deny: there are warnings: "+strings.Join(parts, ", "))
}

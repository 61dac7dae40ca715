package advisory

import (
	"cmp"
	"slices"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// Advice is which of some drivers to take: what list, drivers, gpus and fleet recommend.
type Advice struct {
	Driver   string // the best of [Order]; "" if there are none
	Support  string // of its branch: "production until 2027-03"
	LongTerm string // the best of a branch with long-term support that has not ended; "" if there is none

	marks map[string]string
}

// Recommend chooses among drivers on a day. It leaves out those for vGPU guests, which need a licence.
func Recommend(drivers []matrix.Driver, day time.Time) (a Advice) {
	var all []rated
	for _, d := range drivers {
		if d.VGPU == "" {
			all = append(all, rate(d, day))
		}
	}
	slices.SortStableFunc(all, rated.order)
	a.marks = map[string]string{}
	for i, r := range all {
		if i == 0 {
			a.Driver, a.Support = r.version, r.support()
			if r.rank() == 0 {
				a.marks[r.version] = "recommended: " + r.support()
			}
		}
		if r.kind == releases.LongTerm && !r.ended && a.LongTerm == "" {
			a.LongTerm, a.marks[r.version] = r.version, "recommended: "+r.support()
		}
	}
	return a
}

// Mark says of a version that it is recommended, and how long NVIDIA supports it; "" of any other.
func (a Advice) Mark(version string) string { return a.marks[version] }

// Order compares drivers on a day, the better one first: one of a branch that NVIDIA recommends for production
// (long-term or not) and supports, then one of another supported branch, then the rest; of these one that is not
// known to be bad; of these the newest.
func Order(x, y matrix.Driver, day time.Time) int { return rate(x, day).order(rate(y, day)) }

// rated is what is known of a driver on a day.
type rated struct {
	version, until string // until: the last month of support, where it is known
	kind           releases.Kind
	ended          bool
	faults         int // 1: it is known to be bad, for whatever nodes
}

func rate(d matrix.Driver, day time.Time) rated {
	b, _ := branches().Branch(d.Version)
	r := rated{version: d.Version, kind: b.Kind}
	for _, a := range Of(d) {
		switch a.Kind {
		case driverinfo.EndOfLife:
			r.until, r.ended = a.Until, a.Warns(day)
		case driverinfo.KnownBad:
			r.faults = 1
		}
	}
	return r
}

func (r rated) order(o rated) int {
	return cmp.Or(cmp.Compare(r.rank(), o.rank()), cmp.Compare(r.faults, o.faults), releases.Compare(o.version, r.version))
}

func (r rated) rank() int {
	switch {
	case r.ended:
		return 2
	case r.kind == releases.Production || r.kind == releases.LongTerm:
		return 0
	}
	return 1
}

// support says how long NVIDIA supports a driver's branch: "LTS until 2028-06", "over since 2024-07".
func (r rated) support() string {
	words, before := cmp.Or(string(r.kind), "supported"), " until "
	switch {
	case r.ended:
		words, before = "over", " since "
	case r.kind == releases.LongTerm:
		words = "LTS"
	}
	if r.until == "" {
		return words
	}
	return words + before + r.until
}

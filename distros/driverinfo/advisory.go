package driverinfo

import (
	"cmp"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// The kinds of advisories. Kernels that a series breaks on have their own ranges: see Broken.
const (
	EndOfLife = "end-of-life" // NVIDIA ends the support of a branch
	KnownBad  = "known-bad"   // a release with a fault
)

// Month is the form of Advisory.Until.
const Month = "2006-01"

// noticeMonths is how long before the end of life of a branch a notice becomes worth a line of
// text.
const noticeMonths = 6

// MaxAdvisories is the most advisories that one driver has.
const MaxAdvisories = 16

// Advisory is what people should know about a driver before they use it. It is data: whether it is
// a warning depends on the day.
type Advisory struct {
	ID   string `json:"id" yaml:"id"`     // "gpu-operator-1361"
	Kind string `json:"kind" yaml:"kind"` // EndOfLife or KnownBad
	// of EndOfLife: the last month of support, "2026-06"; "": it is over
	Until string `json:"until,omitempty" yaml:"until,omitempty"`
	// of KnownBad: which nodes; "": all
	Affects string `json:"affects,omitempty" yaml:"affects,omitempty"`
	Reason  string `json:"reason,omitempty" yaml:"reason,omitempty"` // of KnownBad: what happens
	// of KnownBad: the first release without the fault
	Fixed string `json:"fixed,omitempty" yaml:"fixed,omitempty"`
	// who says so: an address, or words
	Source string `json:"source" yaml:"source"`
}

var advisoryID = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,63}$`)

// end returns the first day without support; ok is false if that is not known or no matter.
func (a Advisory) end() (first time.Time, ok bool) {
	last, err := time.Parse(Month, a.Until)
	if err != nil || a.Kind != EndOfLife {
		return first, false
	}
	return last.AddDate(0, 1, 0), true
}

// Warns reports whether the advisory is a warning on a day. Otherwise it is a notice: of an end of
// life that is still to come.
func (a Advisory) Warns(day time.Time) bool {
	end, ok := a.end()
	return !ok || !day.UTC().Before(end)
}

// Near reports whether the advisory is worth a line on a day: each warning is, and an end of life
// within six months.
func (a Advisory) Near(day time.Time) bool {
	end, ok := a.end()
	return !ok || !day.UTC().Before(end.AddDate(0, -noticeMonths, 0))
}

// Text returns the advisory for people, as it is on a day.
func (a Advisory) Text(day time.Time) string {
	switch {
	case a.Kind == EndOfLife && a.Until == "":
		return "its branch is no longer supported (" + a.Source + ")"
	case a.Kind == EndOfLife && a.Warns(day):
		return fmt.Sprintf("support of its branch ended with %s (%s)", a.Until, a.Source)
	case a.Kind == EndOfLife:
		return fmt.Sprintf("support of its branch ends with %s (%s)", a.Until, a.Source)
	}
	text := a.Reason
	if a.Affects != "" {
		text = a.Affects + ": " + text
	}
	if a.Fixed != "" {
		text += "; fixed in " + a.Fixed
	}
	return "known to be bad: " + text + " (" + a.Source + ")"
}

// Check returns what is wrong with the advisory: "" if nothing is.
func (a Advisory) Check() string {
	switch {
	case !advisoryID().MatchString(a.ID):
		return fmt.Sprintf(
			"its id %.80q is no word of small letters, digits, dots and dashes",
			a.ID,
		)
	case a.Kind != EndOfLife && a.Kind != KnownBad:
		return fmt.Sprintf(
			"its kind %.80q is not known: it is %s or %s",
			a.Kind,
			EndOfLife,
			KnownBad,
		)
	case a.Source == "":
		return "it has no source: say who says so"
	case a.Kind == EndOfLife && (a.Affects != "" || a.Reason != "" || a.Fixed != ""):
		return "an end of life has neither affects nor reason nor fixed"
	case a.Kind == KnownBad && a.Until != "":
		return "until is about an end of life"
	case a.Kind == KnownBad && a.Reason == "":
		return "it has no reason: say what happens"
	case a.Fixed != "" && !driverShape().MatchString(a.Fixed):
		return fmt.Sprintf("fixed in %.80q, which is no driver version", a.Fixed)
	}
	if _, err := time.Parse(Month, cmp.Or(a.Until, "2000-01")); err != nil {
		return fmt.Sprintf("until %.80q is no month, such as 2026-06", a.Until)
	}
	for _, text := range []string{a.Source, a.Affects, a.Reason} {
		if len(text) > maxReason {
			return fmt.Sprintf("a text of it is longer than %d bytes", maxReason)
		}
	}
	return ""
}

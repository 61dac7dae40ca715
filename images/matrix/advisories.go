package matrix

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Advisory is what people should know about some drivers. Its drivers need not be in the matrix.
type Advisory struct {
	driverinfo.Advisory
	Drivers []string // versions, or prefixes such as 570.*
}

// covers reports whether the advisory is about a driver.
func (a Advisory) covers(version string) bool {
	return slices.ContainsFunc(a.Drivers, func(pattern string) bool { return patternCovers(pattern, version) })
}

// patternCovers is matches, and takes two forms of one version for the same: 570.86.5 and 570.86.05.
func patternCovers(pattern, version string) bool {
	return pattern == version || strings.HasSuffix(pattern, "*") && matches(pattern, version) ||
		!strings.HasSuffix(pattern, "*") && canonical(pattern) == canonical(version)
}

// common returns a pattern that two advisories share, "" if there is none.
func (a Advisory) common(b Advisory) string {
	for _, x := range a.Drivers {
		for _, y := range b.Drivers {
			if patternCovers(x, y) {
				return y
			}
			if patternCovers(y, x) {
				return x
			}
		}
	}
	return ""
}

// AdvisoriesOf returns what the matrix says about a release of the driver, in the order of the file. The
// release need not be in the matrix.
func (m *Matrix) AdvisoriesOf(version string) (all []driverinfo.Advisory) {
	for _, a := range m.Advisories {
		if a.covers(version) {
			all = append(all, a.Advisory)
		}
	}
	return all
}

// advisories reads the list. Two advisories must not contradict each other: have one id, or two ends of life
// for one driver.
func (d *decoder) advisories(to *[]Advisory) reader {
	var lines []int
	return d.list("advisories", func(n *yaml.Node) {
		var a Advisory
		before := len(d.errs)
		d.mapping(n, "an advisory",
			key{name: "id", required: true, read: d.text("id", &a.ID)},
			key{name: "kind", required: true, read: d.text("kind", &a.Kind, oneOf([]string{driverinfo.EndOfLife, driverinfo.KnownBad}))},
			key{name: "drivers", required: true, read: d.texts("drivers", &a.Drivers,
				shape(patternShape, "is neither a driver version nor a pattern such as 570.*"))},
			key{name: "until", read: d.text("until", &a.Until)},
			key{name: "affects", read: d.text("affects", &a.Affects)},
			key{name: "reason", read: d.text("reason", &a.Reason)},
			key{name: "fixed", read: d.text("fixed", &a.Fixed, driverVersion)},
			key{name: "source", required: true, read: d.text("source", &a.Source)},
		)
		if len(d.errs) > before {
			return // reported already; the rest needs it
		}
		if wrong := a.Check(); wrong != "" {
			d.errorf(n, "an advisory: %s", wrong)
			return
		}
		if a.Kind == driverinfo.EndOfLife && a.Until == "" {
			d.errorf(n, "an end of life has no key until: give the last month of support, such as 2026-06")
		}
		if a.Fixed != "" && a.covers(a.Fixed) {
			d.errorf(n, "advisory %s is about driver %s, and says that this driver has it fixed", a.ID, a.Fixed)
		}
		for i, b := range *to {
			d.contradiction(n, a, b, lines[i])
		}
		*to, lines = append(*to, a), append(lines, n.Line)
	})
}

// contradiction compares an advisory with one before it, on this line.
func (d *decoder) contradiction(n *yaml.Node, a, b Advisory, line int) {
	if a.ID == b.ID {
		d.errorf(n, "advisory %s appears twice: first on line %d", quoted(a.ID), line)
	}
	if shared := a.common(b); a.Kind == driverinfo.EndOfLife && b.Kind == a.Kind && shared != "" {
		d.errorf(n, "the support of driver %s ends with %s here and with %s on line %d: keep one of them", shared, a.Until, b.Until, line)
	}
}

// assignAdvisories gives each driver its advisories. It refuses more than an image can tell its node about.
func (d *decoder) assignAdvisories(m *Matrix) {
	for i, v := range m.Drivers {
		all := m.AdvisoriesOf(v.Version)
		if len(all) >= driverinfo.MaxAdvisories { // one is left for the end of life that driver-build knows
			d.errorAt(0, 0, fmt.Sprintf("driver %s has %d advisories, of which an image can name %d: put what belongs together into one",
				v.Version, len(all), driverinfo.MaxAdvisories-1))
		}
		m.Drivers[i].Advisories = all
	}
}

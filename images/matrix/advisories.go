package matrix

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Advisory is what people should know about some drivers. Its drivers need not be in the matrix.
type Advisory struct {
	driverinfo.Advisory
	Drivers []string `m:"drivers!" of:"pattern"` // versions, or prefixes such as 570.*
}

// covers reports whether the advisory is about a driver, or about all of a pattern.
func (a Advisory) covers(version string) bool {
	return slices.ContainsFunc(a.Drivers, func(pattern string) bool { return matches(pattern, version) })
}

// common returns a pattern that two advisories share, "" if there is none.
func (a Advisory) common(b Advisory) string {
	if i := slices.IndexFunc(b.Drivers, a.covers); i >= 0 {
		return b.Drivers[i]
	}
	if i := slices.IndexFunc(a.Drivers, b.covers); i >= 0 {
		return a.Drivers[i]
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

// advisories checks the list. Two advisories must not contradict each other: have one id, or two ends of life
// for one driver. A driver must not have more than an image can tell its node about.
func (d *decoder) advisories(root *yaml.Node) {
	rows := child(root, "advisories").Content
	for i, a := range d.m.Advisories {
		wrong := a.Check()
		switch {
		case len(a.Drivers) == 0 || a.ID == "" || a.Kind == "" || a.Source == "": // reported already
		case wrong != "":
			d.errorf(rows[i], "an advisory: %s", wrong)
		case a.Kind == driverinfo.EndOfLife && a.Until == "":
			d.errorf(rows[i], "an end of life has no key until: give the last month of support, such as 2026-06")
		case a.Fixed != "" && a.covers(a.Fixed):
			d.errorf(rows[i], "advisory %s is about driver %s, and says that this driver has it fixed", a.ID, a.Fixed)
		}
		for k, b := range d.m.Advisories[:i] {
			if a.ID == b.ID && a.ID != "" {
				d.errorf(rows[i], "advisory %s appears twice: first on line %d", quoted(a.ID), rows[k].Line)
			}
			if shared := a.common(b); a.Kind == driverinfo.EndOfLife && b.Kind == a.Kind && shared != "" {
				d.errorf(rows[i], "the support of driver %s ends with %s here and with %s on line %d: keep one of them",
					shared, a.Until, b.Until, rows[k].Line)
			}
		}
	}
	for _, v := range d.m.Drivers {
		if n := len(v.Advisories); n >= driverinfo.MaxAdvisories { // one is left for the end of life that driver-build knows
			d.errorAt(0, 0, fmt.Sprintf("driver %s has %d advisories, of which an image can name %d: put what belongs together into one",
				v.Version, n, driverinfo.MaxAdvisories-1))
		}
	}
}

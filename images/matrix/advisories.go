package matrix

import (
	"fmt"
	"path"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Advisory is what people should know about some drivers. Its drivers need not be in the matrix.
type Advisory struct {
	driverinfo.Advisory
	Drivers []string `m:"drivers!" of:"pattern"` // versions, or prefixes such as 570.*
	// Nodes says which nodes a fault hits, in a form that programs read; nil: only the text Affects
	// says it. Images do not have it.
	Nodes *AdvisoryNodes `m:"nodes"`
}

// AdvisoryNodes are the nodes that an advisory is about. A node is one of them if each list that is
// not empty has it.
type AdvisoryNodes struct {
	// types of a cloud's machines, or patterns: p6e-gb200.*
	Instances []string `m:"instances" of:"instance"`
	Devices   []string `m:"devices" of:"device"` // PCI numbers of GPUs: "2941"
}

// Have reports whether a machine of this type ("" if no cloud has a word for it) with these GPUs is
// one of the nodes.
func (n *AdvisoryNodes) Have(instance string, devices []uint16) bool {
	isInstance := func(pattern string) bool {
		ok, _ := path.Match(pattern, instance) // their form allows no mistake
		return ok
	}
	isDevice := func(device uint16) bool { return slices.Contains(n.Devices, fmt.Sprintf("%04x", device)) }
	if len(n.Instances) > 0 && !slices.ContainsFunc(n.Instances, isInstance) {
		return false
	}
	return len(n.Devices) == 0 || slices.ContainsFunc(devices, isDevice)
}

// covers reports whether the advisory is about a driver, or about all of a pattern.
func (a Advisory) covers(version string) bool {
	return slices.ContainsFunc(
		a.Drivers,
		func(pattern string) bool { return matches(pattern, version) },
	)
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

// AdvisoriesOf returns what the matrix says about a release of the driver, in the order of the
// file. The release need not be in the matrix.
func (m *Matrix) AdvisoriesOf(version string) []Advisory {
	other := func(a Advisory) bool { return !a.covers(version) }
	return slices.DeleteFunc(slices.Clone(m.Advisories), other)
}

// advisories checks the list. Two advisories must not contradict each other: have one id, or two
// ends of life for one driver. A driver must not have more than an image can tell its node about.
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
		case a.Nodes != nil && a.Affects == "":
			d.errorf(rows[i], "advisory %s has nodes without affects: say in words which nodes these are", a.ID)
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
		// one is left for the end of life that driver-build knows
		if n := len(v.Advisories); n >= driverinfo.MaxAdvisories {
			d.errorAt(0, 0, fmt.Sprintf("driver %s has %d advisories, of which an image can name %d: put what belongs together into one",
				v.Version, n, driverinfo.MaxAdvisories-1))
		}
	}
}

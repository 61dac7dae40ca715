package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

// LabelHostModules is the driver whose modules a node's own system loads, "580.178.04"; "none" if
// the container brings them.
const LabelHostModules = "nvidia.com/driver.host-modules"

// The labels that Talos 1.8 and later put on a node for its extensions. Their values begin with the
// driver's version: "580.178.04-v1.13.6" (siderolabs/talos#9093).
const (
	talosExtension = "extensions.talos.dev/"
	talosOpen      = talosExtension + "nvidia-open-gpu-kernel-modules"
	talosClosed    = talosExtension + "nonfree-kmod-nvidia"
	// has the driver's libraries too, so nothing is missing there
	talosUserland = talosExtension + "nvidia-container-toolkit"
)

// labelsOfHost are labels that name the driver whose modules a node's system loads.
var labelsOfHost = []string{
	LabelHostModules, talosOpen, talosOpen + "-lts", talosOpen + "-production", talosClosed, talosClosed + "-lts", talosClosed + "-production",
}

// hostModules returns the driver whose modules the system of a node loads, and their flavour, "" if
// it is not known. The driver is "" if no label names it, or if the system has the rest of the
// driver too.
func hostModules(labels map[string]string) (version, flavour string) {
	for _, key := range labelsOfHost {
		value := labels[key]
		switch {
		case value == "":
		case key == LabelHostModules:
			return strings.TrimSuffix(value, "none"), ""
		case slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(other string) bool { return strings.HasPrefix(other, talosUserland) }):
			return "", ""
		default:
			flavour = matrix.Open
			if strings.HasPrefix(key, talosClosed) {
				flavour = matrix.Proprietary
			}
			version, _, _ = strings.Cut(value, "-")
			return version, flavour
		}
	}
	return "", ""
}

// overHost chooses an image of the driver whose modules the machine's system loads. Any system's
// will do: the first of the matrix that has no packages, else the first one.
func (c *chooser) overHost(m *machine, flavour string) {
	packages := func(s matrix.System) int {
		d, err := distros.Lookup(s.ID)
		if err != nil || d.PackageManager() != "" {
			return 1
		}
		return 0
	}
	fewest := func(a, b matrix.System) int { return packages(a) - packages(b) }
	var targets []matrix.Target
	for _, s := range slices.SortedStableFunc(slices.Values(c.matrix.Systems), fewest) {
		targets = append(targets, c.candidates(s.ID, m.Arch)...)
	}
	var bad error
	for _, t := range targets {
		for _, f := range t.Flavours {
			if t.Driver.Version != m.host || flavour != "" && f != flavour {
				continue
			}
			bad = m.need.check(m.host, f)
			if bad != nil {
				continue
			}
			t.Flavours = t.Driver.Flavours
			m.target = t
			m.flavours = t.Driver.Flavours
			m.settings = m.host + " " + t.System.ID + " host"
			m.class = m.settings
			return
		}
	}
	if bad != nil {
		m.refuse(GPUUnsupported, "driver %s, whose modules its system loads, does not drive its GPU (%s): %v",
			m.host, m.need, bad)
		return
	}
	m.refuse(NoDriver, "its system loads modules of driver %s, and none of the drivers that may be chosen for %s is that one: "+
		"add it to the matrix (driver-build matrix add-driver %[1]s), or give the system modules of one that is there",
		m.host, m.Arch)
}

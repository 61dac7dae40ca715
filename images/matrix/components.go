package matrix

import (
	"maps"
	"path"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"
)

// The components of a driver that come in archives of their own: the programs of machines with
// NVSwitch and NVLink, and libraries for monitoring them.
const (
	FabricManager = "fabricmanager"
	IMEX          = "imex"
	NSCQ          = "nscq"
	NVLSM         = "nvlsm"
	NVSDM         = "nvsdm"
)

// ComponentNames are the known components. NVLSM has versions of its own; the others have the
// driver's.
var ComponentNames = []string{FabricManager, IMEX, NSCQ, NVLSM, NVSDM}

// Components are archives by component and architecture.
type Components map[string]map[string]Archive

// Component is one of the components of a driver, for one architecture.
type Component struct {
	Name    string
	Version string
	Archive
}

// Released returns the components of the driver's own version that NVIDIA's redist folder has for
// an architecture, as far as its manifests are known, whether or not the matrix has them: fabric
// manager and NSCQ from 470 on, IMEX from 550 on. The matrix has only those whose sha256 a public
// source has.
func Released(driver string) []string {
	switch branch := Major(driver); {
	case branch >= 550:
		return []string{FabricManager, IMEX, NSCQ}
	case branch >= 470:
		return []string{FabricManager, NSCQ}
	}
	return nil
}

// Lacks returns those of some names for which there is no archive for an architecture, or for any
// if it is "".
func (c Components) Lacks(arch string, names []string) (missing []string) {
	for _, name := range names {
		_, known := c[name][arch]
		if !known && (arch != "" || len(c[name]) == 0) {
			missing = append(missing, name)
		}
	}
	return missing
}

// For returns the components for an architecture, by name.
func (c Components) For(arch string) (all []Component) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if a, ok := c[name][arch]; ok {
			all = append(all, Component{name, archiveVersion(a.URL), a})
		}
	}
	return all
}

// Platform returns NVIDIA's name of an architecture in the redist folder: linux-sbsa for arm64.
func Platform(arch string) string {
	return map[string]string{"amd64": "linux-x86_64", "arm64": "linux-sbsa"}[arch]
}

var archiveName = regexp.MustCompile(
	`-(linux-x86_64|linux-sbsa)-([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})-archive\.tar\.xz$`,
)

// archiveVersion is the version in the name of an archive of the redist folder, "" for another
// name.
func archiveVersion(url string) string {
	if m := archiveName.FindStringSubmatch(path.Base(url)); m != nil {
		return m[2]
	}
	return ""
}

// components checks the archives of components. Their names hold platform and version, which must
// be those of the key and of the driver.
func (d *decoder) components(to *Driver, n *yaml.Node) {
	for name, archives := range to.Components {
		at := child(child(n, "components"), name)
		for arch, a := range archives {
			m := archiveName.FindStringSubmatch(path.Base(a.URL))
			switch {
			case a.URL == "": // reported
			case m == nil:
				d.errorf(at, "the address of component %s must end in <name>-linux-<x86_64 or sbsa>-<version>-archive.tar.xz", name)
			case m[1] != Platform(arch):
				d.errorf(at, "component %s for %s has the archive of %s", name, arch, m[1])
			case name != NVLSM && m[2] != to.Version:
				d.errorf(at, "component %s is of version %s, its driver of version %s: they must be the same", name, m[2], to.Version)
			}
		}
	}
}

package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// CompanionsLayer is the name of the layer with the sources of companions.
const CompanionsLayer = "companion sources"

// Companion is a companion that the image compiles, or has compiled: see driverinfo.Companion. Its
// sources are an archive or a package.
type Companion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// of the driver's modules that it can be compiled against; empty: all
	Flavours []string         `json:"flavours,omitempty"`
	Licence  string           `json:"licence"`
	File     *fetch.File      `json:"file,omitempty"`
	Package  *distros.Package `json:"package,omitempty"`
}

// Digest is that of the archive or package, in hexadecimal.
func (c Companion) Digest() string {
	switch {
	case c.File != nil:
		return c.File.SHA256
	case c.Package.SHA256 != "":
		return c.Package.SHA256
	}
	return c.Package.SHA512
}

// DescribeCompanions returns what driver.json says of the companions, with or without their
// sources.
func (r *Recipe) DescribeCompanions(sources bool) (all []driverinfo.Companion) {
	for _, c := range r.Companions {
		d := driverinfo.Companion{
			Name:     c.Name,
			Version:  c.Version,
			Digest:   c.Digest(),
			Flavours: c.Flavours,
		}
		if sources {
			d.Sources = driverinfo.CompanionSources(c.Name, c.Version)
		}
		all = append(all, d)
	}
	return all
}

// CompanionIDs returns the IDs of the companions that are compiled with the modules of a flavour,
// as a kbuild.Key has them; "" is any flavour.
func (r *Recipe) CompanionIDs(flavour string) (ids []string) {
	for _, name := range driverinfo.Companions() {
		for _, c := range r.DescribeCompanions(false) {
			if c.Name == name && (flavour == "" || c.Fits(flavour)) {
				ids = append(
					ids,
					kbuild.Companion{Name: c.Name, Version: c.Version, Digest: c.Digest}.ID(),
				)
			}
		}
	}
	return ids
}

// addCompanions takes the companions of the target that fit a flavour of the image: a thin image
// has not all flavours of its driver. One that was named must fit the flavours whose modules the
// image has.
func (r *Recipe) addCompanions(t matrix.Target) error {
	fits := func(c matrix.Companion, flavours []string) bool {
		return len(c.Flavours) == 0 || anyOf(c.Flavours, flavours)
	}
	for _, c := range t.Companions {
		if c.Named &&
			(!fits(c, r.Flavours) || len(r.Kernels) > 0 && !fits(c, r.PrecompiledFlavours)) {
			return fmt.Errorf(
				"%w: companion %s %s needs the %s modules, and the image gets %s ones: give --kernel-flavour %s, or leave it out of --companions",
				ErrKernel,
				c.Name,
				c.Version,
				strings.Join(c.Flavours, " or "),
				strings.Join(r.PrecompiledFlavours, " and "),
				c.Flavours[0],
			)
		}
		if !fits(c, r.Flavours) {
			continue
		}
		if len(r.Asked.Signed) > 0 { // nothing is compiled
			if c.Named {
				return fmt.Errorf("%w: companion %s %s: the distribution has no signed module of it: leave out "+
					"--companions or --modules-from", ErrKernel, c.Name, c.Version)
			}
			continue
		}
		of := Companion{Name: c.Name, Version: c.Version, Flavours: c.Flavours, Licence: c.Licence}
		if c.Archive != nil {
			of.File = &fetch.File{
				URL:    c.Archive.URL,
				SHA256: c.Archive.SHA256,
				Size:   c.Archive.Size,
			}
		} else {
			of.Package = &distros.Package{Name: c.Debian.Package} // until the plan pins it
			r.Asked.Companions = append(r.Asked.Companions, c.Wants(t.System.ID))
		}
		r.Companions = append(r.Companions, of)
	}
	return nil
}

// anyOf reports whether two lists of flavours have one in common.
func anyOf(some, of []string) bool {
	return slices.ContainsFunc(some, func(f string) bool { return slices.Contains(of, f) })
}

// companionPins returns the packages of the companions.
func (r *Recipe) companionPins() (all []distros.Package) {
	for _, c := range r.Companions {
		if c.Package != nil {
			all = append(all, *c.Package)
		}
	}
	return all
}

// FabricLayer is the name of the layer with the components.
const FabricLayer = "fabric"

// Component is a component of the driver that the image has: see package matrix.
type Component struct {
	Name    string     `json:"name"`
	Version string     `json:"version"`
	File    fetch.File `json:"file"`
}

// The folders of components in an image, besides the library folder and usr/bin.
const (
	ComponentsFile = ShareDir + "/components.json" // version by name
	// topologies and configuration of the fabric manager
	TopologyDir    = "usr/share/nvidia/nvswitch"
	NVLSMDir       = "opt/nvidia/nvlsm"
	NVLSMConfigDir = "usr/share/nvidia/nvlsm"
)

// ComponentLicence is where the licence of a component is.
func ComponentLicence(name string) string { return "licenses/" + name + ".txt" }

// Fabric returns the components that the profile takes: all of them, or for CUDA alone those
// without which CUDA does not start on a machine with NVSwitch, or does not reach the GPUs of other
// machines.
func (p Profile) Fabric(of []matrix.Component) (list []Component) {
	for _, c := range of {
		if p.onlyCUDA() &&
			!slices.Contains([]string{matrix.FabricManager, matrix.NVLSM, matrix.IMEX}, c.Name) {
			continue
		}
		list = append(
			list,
			Component{c.Name, c.Version, fetch.File{URL: c.URL, SHA256: c.SHA256, Size: c.Size}},
		)
	}
	return list
}

// FabricDigests are those of the components' archives, with the names, as the input of a layer.
func (r *Recipe) FabricDigests() (all []string) {
	for _, c := range r.Fabric {
		all = append(all, c.Name+" "+c.File.SHA256)
	}
	return all
}

// patches are those of a driver that a source and some flavours need.
func patches(d matrix.Driver, from Source, flavours []string) (list []matrix.Patch) {
	kind := matrix.SourcePackages
	if from.Archive() != nil {
		kind = matrix.SourceArchive
	}
	for _, p := range d.Patches {
		if slices.Contains(p.Sources, kind) && anyOf(p.Flavours, flavours) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b matrix.Patch) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// PatchDigests are those of the patches of some flavours, as the input of a layer; nil if there are
// none.
func (r *Recipe) PatchDigests(flavours ...string) (sums []string) {
	for _, p := range r.Patches {
		if anyOf(p.Flavours, flavours) {
			sums = append(sums, p.SHA256)
		}
	}
	slices.Sort(sums)
	return sums
}

// PatchNotes are the patches as the image's own description has them.
func (r *Recipe) PatchNotes() (notes []driverinfo.Patch) {
	for _, p := range r.Patches {
		notes = append(
			notes,
			driverinfo.Patch{Name: p.Name, SHA256: p.SHA256, Flavours: p.Flavours},
		)
	}
	return notes
}

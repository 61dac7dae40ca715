package documents

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// addDriver adds NVIDIA's driver with its libraries, programs, firmware and sources, and returns
// its id.
func (g *graph) addDriver(i *ImageContent, image string) string {
	c := component{
		id: "Driver-" + i.Arch, purpose: "APPLICATION", name: "nvidia-driver", version: i.Driver, supplier: nvidia, licence: g.licenceID,
		// NVD lists the driver for Linux under this name: "gpu_display_driver", with the platform
		// as target.
		cpe:  "cpe:2.3:a:nvidia:gpu_display_driver:" + i.Driver + ":*:*:*:*:linux:*:*",
		purl: purl("generic", "nvidia-driver", i.Driver, nil),
	}
	if run := i.recipe.Source.Archive(); run != nil {
		c.download = run.URL
		c.sums = sha256Sum(run.SHA256)
		c.purl = archivePURL(c.name, c.version, run.URL, run.SHA256)
	}
	id := g.contain(image, c)
	for _, p := range i.recipe.Source.Packages {
		if i.modulesOnly() && !recipe.HasKernelSources(p.Name) {
			continue
		}
		g.contain(id, i.pinned(p, debianSource(p.Name, p.Version, i.Driver)))
	}
	g.addComponents(i, id)
	g.addCompanions(i, id)
	for _, part := range []struct {
		purpose string
		files   []string
	}{{"LIBRARY", i.Libraries}, {"FIRMWARE", i.Firmware}, {"APPLICATION", i.Programs}, {"FILE", i.others}} {
		for _, p := range slices.Sorted(slices.Values(part.files)) {
			g.contain(id, i.file(p, part.purpose))
		}
	}
	for _, flavour := range i.Flavours {
		sources := g.contain(id, component{
			id: "Sources-" + i.Arch + "-" + flavour, purpose: "SOURCE", name: "nvidia-kernel-sources-" + flavour, version: i.Driver,
			path: "/" + recipe.KernelDir(
				i.Driver,
				flavour,
			), supplier: nvidia, licence: g.flavourLicence(flavour),
		})
		g.addPatches(i, flavour, sources)
	}
	return id
}

// addPatches adds the patches that were applied to the sources of a flavour.
func (g *graph) addPatches(i *ImageContent, flavour, sources string) {
	for _, p := range i.recipe.Patches {
		if slices.Contains(p.Flavours, flavour) {
			g.relate(g.add(component{
				id: "Patch-" + i.Arch + "-" + p.Name, purpose: "SOURCE", name: p.Name + ".patch", download: p.URL, licence: p.Licence,
				sums: sha256Sum(p.SHA256), facts: []fact{{"reason", p.Reason}, {"origin", p.Origin}},
			}), patchApplied, sources)
		}
	}
}

// file is a file of the driver. A file whose name has no version may be of another project
// that NVIDIA ships (libglvnd, OpenCL's loader), so the file has the driver's version only where
// its name says so.
func (i *ImageContent) file(p, purpose string) component {
	c := component{
		id: "File-" + i.Arch + p, purpose: purpose, name: path.Base(p), path: p, sums: sha256Sum(i.sums[p]),
	}
	if i.Driver != "" &&
		(strings.Contains(p, "/"+i.Driver+"/") || strings.HasSuffix(p, "."+i.Driver)) {
		c.version = i.Driver
		c.supplier = nvidia
	}
	if purpose == "LIBRARY" {
		c.facts = facts("links", strings.Join(slices.Sorted(slices.Values(i.links[p])), " "))
	}
	return c
}

// debianSource is the source package of one of Debian's packages with a part of the driver; "" for
// packages with versions of their own, whose sources the repository's index does not tell the
// recipe.
func debianSource(name, version, driver string) string {
	switch {
	case !strings.HasPrefix(version, driver+"-"):
		return ""
	case recipe.PackageFlavour(name) == driverinfo.Open:
		return "nvidia-open-gpu-kernel-modules"
	default:
		return "nvidia-graphics-drivers"
	}
}

func (g *graph) flavourLicence(flavour string) string {
	if flavour == driverinfo.Open {
		return "MIT OR GPL-2.0-only"
	}
	return g.licenceID
}

// componentLicence is the licence of a component: its own, since NVIDIA licenses IMEX in another
// way than the driver. It is "" where its text is not known.
func (g *graph) componentLicence(i *ImageContent, name string) string {
	text := i.texts[recipe.ComponentLicence(name)]
	switch text {
	case "":
		return ""
	case g.licence:
		return g.licenceID
	}
	id := "LicenseRef-NVIDIA-" + name
	word := "NVIDIA Driver" // the words of NVIDIA's manifests
	if name == matrix.IMEX {
		word = "NVIDIA Proprietary"
	}
	// those of one release are equal
	g.licences[id] = licenceText{word + " (" + name + ")", max(g.licences[id].text, text)}
	return id
}

// addComponents adds the components of the driver that come in archives of their own.
func (g *graph) addComponents(i *ImageContent, driver string) {
	for _, f := range i.recipe.Fabric {
		c := component{
			id:       "Component-" + i.Arch + "-" + f.Name,
			purpose:  "APPLICATION",
			name:     "nvidia-" + f.Name,
			version:  f.Version,
			supplier: nvidia,
			licence:  g.componentLicence(i, f.Name),
			download: f.File.URL,
			sums:     sha256Sum(f.File.SHA256),
		}
		c.purl = archivePURL(c.name, c.version, f.File.URL, f.File.SHA256)
		g.contain(driver, c)
	}
}

// addCompanions adds the kernel modules of other projects that are compiled with the driver's.
func (g *graph) addCompanions(i *ImageContent, driver string) {
	for _, of := range i.recipe.Companions {
		c := component{
			id:       "Companion-" + i.Arch + "-" + of.Name,
			purpose:  "APPLICATION",
			name:     of.Name,
			version:  of.Version,
			supplier: nvidia,
			licence:  of.Licence,
			purl:     purl("generic", of.Name, of.Version, nil),
		}
		if p := of.Package; p != nil {
			c.source = p.Name + " " + p.Version
			c.download = p.URL
			c.sums = packageSums(*p)
		} else if of.File != nil {
			c.download = of.File.URL
			c.sums = sha256Sum(of.File.SHA256)
			c.purl = archivePURL(c.name, c.version, of.File.URL, of.File.SHA256)
		}
		g.contain(driver, c)
	}
}

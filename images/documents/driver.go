package documents

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// addDriver adds NVIDIA's driver with its libraries, programs, firmware and sources, and returns its id.
func (g *graph) addDriver(i *Image, image string) string {
	c := component{
		id: "Driver-" + i.Arch, purpose: "APPLICATION", name: "nvidia-driver", version: i.Driver, supplier: nvidia, licence: g.nvidiaLicence(),
		// NVD lists the driver for Linux under this name: "gpu_display_driver", with the platform as target.
		cpe: "cpe:2.3:a:nvidia:gpu_display_driver:" + i.Driver + ":*:*:*:*:linux:*:*",
	}
	qualifiers := map[string]string{}
	if i.recipe != nil && i.recipe.Source.Archive() != nil {
		run := i.recipe.Source.Archive()
		c.download, c.sums = run.URL, []sum{{"SHA256", run.SHA256}}
		qualifiers["checksum"], qualifiers["download_url"] = "sha256:"+run.SHA256, run.URL
	}
	c.purl = purl{kind: "generic", name: "nvidia-driver", version: i.Driver, qualifiers: qualifiers}.String()
	id := g.add(c)
	g.relate(image, contains, id)
	if i.recipe != nil {
		for _, p := range i.recipe.Source.Packages {
			g.relate(id, contains, g.add(i.pinned(p, debianSource(p.Name, p.Version, i.Driver))))
		}
	}
	if i.recipe != nil {
		g.addComponents(i, id)
		g.addCompanions(i, id)
	}
	for _, part := range []struct {
		purpose string
		files   []File
	}{{"LIBRARY", i.LibraryFiles}, {"FIRMWARE", i.FirmwareFiles}, {"APPLICATION", i.ToolFiles}, {"FILE", i.OtherFiles}} {
		for _, f := range slices.SortedFunc(slices.Values(part.files), func(a, b File) int { return strings.Compare(a.Path, b.Path) }) {
			g.relate(id, contains, g.addFile(i, f, part.purpose))
		}
	}
	for _, s := range i.Sources {
		sources := g.add(component{
			id: "Sources-" + i.Arch + "-" + s.Flavour, purpose: "SOURCE", name: "nvidia-kernel-sources-" + s.Flavour, version: i.Driver, path: s.Path,
			supplier: nvidia, licence: g.flavourLicence(s.Flavour),
		})
		g.relate(id, contains, sources)
		g.addPatches(i, s.Flavour, sources)
	}
	return id
}

// addFile adds a file of the driver. A file whose name has no version may be of another project that NVIDIA
// ships (libglvnd, OpenCL's loader), so the file has the driver's version only where its name says so.
func (g *graph) addFile(i *Image, f File, purpose string) string {
	c := component{
		id: "File-" + i.Arch + f.Path, purpose: purpose, name: path.Base(f.Path), path: f.Path, sums: []sum{{"SHA256", f.SHA256}},
	}
	if i.Driver != "" && (strings.Contains(f.Path, "/"+i.Driver+"/") || strings.HasSuffix(f.Path, "."+i.Driver)) {
		c.version, c.supplier = i.Driver, nvidia
	}
	if len(f.Links) > 0 {
		c.facts = append(c.facts, fact{"links", strings.Join(sortedWords(f.Links), " ")})
	}
	return g.add(c)
}

// debianSource is the source package of one of Debian's packages with a part of the driver; "" for packages
// with versions of their own, whose sources the repository's index does not tell the recipe.
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

// nvidiaLicence is the licence of the driver; "" where its text is not known, because a document that names a
// licence of its own has to repeat it.
func (g *graph) nvidiaLicence() string {
	if g.licence == "" {
		return ""
	}
	return g.licenceID
}

func (g *graph) flavourLicence(flavour string) string {
	if flavour == driverinfo.Open {
		return openLicence
	}
	return g.nvidiaLicence()
}

func sortedWords(words []string) []string { return slices.Sorted(slices.Values(words)) }

// componentLicence is the licence of a component: its own, since NVIDIA licenses IMEX in another way than the
// driver. It is "" where its text is not known.
func (g *graph) componentLicence(i *Image, name string) string {
	text := i.ComponentLicences[name]
	if text == "" {
		return ""
	}
	if text == g.licence {
		return g.licenceID
	}
	id, word := "LicenseRef-NVIDIA-"+name, "NVIDIA Driver" // the words of NVIDIA's manifests
	if name == matrix.IMEX {
		word = "NVIDIA Proprietary"
	}
	g.licences[id] = licenceText{word + " (" + name + ")", max(g.licences[id].text, text)} // those of one release are equal
	return id
}

// addComponents adds the components of the driver that come in archives of their own.
func (g *graph) addComponents(i *Image, driver string) {
	for _, f := range i.recipe.Fabric {
		url := purl{kind: "generic", name: "nvidia-" + f.Name, version: f.Version, qualifiers: map[string]string{
			"checksum": "sha256:" + f.File.SHA256, "download_url": f.File.URL,
		}}
		g.relate(driver, contains, g.add(component{
			id: "Component-" + i.Arch + "-" + f.Name, purpose: "APPLICATION", name: "nvidia-" + f.Name, version: f.Version, supplier: nvidia,
			licence: g.componentLicence(i, f.Name), download: f.File.URL, sums: []sum{{"SHA256", f.File.SHA256}}, purl: url.String(),
		}))
	}
}

// addCompanions adds the kernel modules of other projects that are compiled with the driver's.
func (g *graph) addCompanions(i *Image, driver string) {
	for _, c := range i.recipe.Companions {
		of := component{
			id: "Companion-" + i.Arch + "-" + c.Name, purpose: "APPLICATION", name: c.Name, version: c.Version, supplier: nvidia, licence: c.Licence,
		}
		url := purl{kind: "generic", name: c.Name, version: c.Version, qualifiers: map[string]string{}}
		switch {
		case c.Package != nil:
			of.source, of.download, of.sums = c.Package.Name+" "+c.Package.Version, c.Package.URL, []sum{{"SHA256", c.Package.SHA256}}
			if c.Package.SHA256 == "" {
				of.sums = []sum{{"SHA512", c.Package.SHA512}}
			}
		case c.File != nil:
			of.download, of.sums = c.File.URL, []sum{{"SHA256", c.File.SHA256}}
			url.qualifiers["checksum"], url.qualifiers["download_url"] = "sha256:"+c.File.SHA256, c.File.URL
		}
		of.purl = url.String()
		g.relate(driver, contains, g.add(of))
	}
}

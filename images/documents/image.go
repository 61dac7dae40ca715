package documents

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
)

// addImage adds an image with all that is in it, and returns its id.
func (g *graph) addImage(i *ImageContent) string {
	tag := i.tag()
	id := g.add(component{
		id: "Image-" + i.Arch, purpose: "CONTAINER", name: g.model.Name, version: tag, sums: sha256Of(i.Digest),
		purl: imagePURL(g.model.Name, i.Digest, map[string]string{"arch": i.Arch, "tag": tag}),
		facts: facts( // that only our images know of themselves
			"architecture",
			i.Arch,
			"driver",
			i.Driver,
			"profile",
			i.Profile,
			"flavours",
			strings.Join(slices.Sorted(slices.Values(i.Flavours)), ","),
			"kernels",
			i.Labels[recipe.LabelKernels],
			"packages of the modules",
			i.Labels[recipe.LabelModulePackages],
			"overridden",
			i.Labels[recipe.LabelOverridden],
			"content",
			i.Labels[recipe.LabelContent],
			"revision",
			i.Labels[recipe.OCIPrefix+"revision"],
		),
	})
	base := recipe.Base{
		Name:   i.Labels[recipe.OCIPrefix+"base.name"],
		Digest: i.Labels[recipe.OCIPrefix+"base.digest"],
	}
	if base.Digest != "" {
		g.relate(id, descendantOf, g.add(i.otherImage("Base-"+i.Arch, "base", base)))
	}
	if !i.modulesOnly() {
		system := g.contain(
			id,
			component{
				id:      "OperatingSystem-" + i.Arch, // by this word trivy knows the system
				purpose: "OPERATING-SYSTEM",
				name:    cmp.Or(i.systemID, "unknown"),
				version: i.systemVersion,
			},
		)
		g.addPackages(i, system)
	}
	if i.Driver != "" {
		g.addModules(i, id, g.addDriver(i, id))
	}
	g.addPrograms(i, id)
	return id
}

// otherImage is the component of an image that this one was made from. One that came from a file
// has only a word as its name.
func (i *ImageContent) otherImage(id, word string, image recipe.Base) component {
	name, tag, _ := imagename.Split(image.Name)
	c := component{
		id:      id,
		purpose: "CONTAINER",
		name:    cmp.Or(name, word),
		version: tag,
		sums:    sha256Of(image.Digest),
	}
	c.purl = imagePURL(
		c.name,
		image.Digest,
		map[string]string{"arch": i.Arch, "tag": tag, "repository_url": name},
	)
	return c
}

// modulesOnly says that the image has nothing of a system and of the user-mode driver.
func (i *ImageContent) modulesOnly() bool { return i.Profile == string(recipe.ModulesOnly) }

// tag is the one that the image was built for. Others may name the same image, and are not in its
// document.
func (i *ImageContent) tag() string { return i.Labels[recipe.OCIPrefix+"version"] }

// addPackages adds the packages of the system. The recipe knows where those come from that the base
// did not have.
func (g *graph) addPackages(i *ImageContent, system string) {
	key := func(name, version, arch string) string { return name + " " + version + " " + arch }
	origins := map[string]distros.Package{}
	for _, p := range i.recipe.AllPackages() {
		origins[key(p.Name, p.Version, p.Arch)] = p
	}
	for _, p := range slices.SortedFunc(slices.Values(i.Packages), func(a, b packages.Installed) int {
		return strings.Compare(key(a.Name, a.Version, a.Arch), key(b.Name, b.Version, b.Arch))
	}) {
		c := i.packageComponent(p, origins[key(p.Name, p.Version, p.Arch)])
		names, texts := debianLicences(i.texts[copyrightFile(p.Name)])
		if p.Licence != "" {
			names = []string{p.Licence}
		}
		c.licence = g.packageLicence(names, texts)
		g.contain(system, c)
	}
}

// packageComponent is the component of a package. from says where it was downloaded from; the zero
// value: nobody knows.
func (i *ImageContent) packageComponent(p packages.Installed, from distros.Package) component {
	c := component{
		id: strings.Join(
			[]string{"Package", i.Arch, p.Kind, p.Name, p.Version, p.Arch},
			"-",
		), name: p.Name, version: p.Version,
		purl: i.packagePURL(p), supplier: p.Supplier, download: from.URL, sums: packageSums(from),
	}
	if p.Source != "" {
		c.source = p.Source + " " + p.SourceVersion
	}
	return c
}

func packageSums(p distros.Package) (all []sum) {
	for _, s := range []sum{{"SHA256", p.SHA256}, {"SHA512", p.SHA512}} {
		if s.hex != "" {
			all = append(all, s)
		}
	}
	return all
}

// pinned is the component of a package that the image's record does not list: one with a part of
// the driver, or one that only the build used.
func (i *ImageContent) pinned(p distros.Package, source string) component {
	known := packages.Installed{
		Name:    p.Name,
		Version: p.Version,
		Arch:    p.Arch,
		Kind:    strings.TrimPrefix(path.Ext(p.URL), "."),
		Source:  source,
	}
	if len(i.Packages) > 0 {
		known.Kind = i.Packages[0].Kind // all packages of an image are of one kind
	}
	if source != "" {
		known.SourceVersion = p.Version
	}
	return i.packageComponent(known, p)
}

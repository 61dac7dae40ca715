package documents

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
)

// addImage adds an image with all that is in it, and returns its id.
func (g *graph) addImage(i *Image) string {
	tag := i.tag()
	id := g.add(component{
		id: "Image-" + i.Arch, purpose: "CONTAINER", name: g.imageName(), version: tag, sums: sha256Of(i.Digest),
		purl:  imagePURL(g.imageName(), i.Digest, map[string]string{"arch": i.Arch, "tag": tag}),
		facts: i.facts(),
	})
	if i.Base.Digest != "" {
		g.relate(id, descendantOf, g.add(i.otherImage("Base-"+i.Arch, "base", recipe.Base{Name: i.Base.Name, Digest: i.Base.Digest})))
	}
	system := g.add(component{
		id: "System-" + i.Arch, purpose: "OPERATING-SYSTEM", name: cmp.Or(i.SystemID, "unknown"), version: i.SystemVersion,
	})
	g.relate(id, contains, system)
	g.addPackages(i, system)
	if i.Driver != "" {
		g.addModules(i, id, g.addDriver(i, id))
	}
	g.addPrograms(i, id)
	return id
}

// otherImage is the component of an image that this one was made from. One that came from a file has only a
// word as its name.
func (i *Image) otherImage(id, word string, image recipe.Base) component {
	name, tag := image.Name, ""
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name, tag = name[:colon], name[colon+1:]
	}
	name = cmp.Or(name, word)
	qualifiers := map[string]string{"arch": i.Arch, "tag": tag}
	if image.Name != "" {
		qualifiers["repository_url"] = name
	}
	return component{id: id, purpose: "CONTAINER", name: name, version: tag, purl: imagePURL(name, image.Digest, qualifiers),
		sums: sha256Of(image.Digest)}
}

// tag is the one that the image was built for. Others may name the same image, and are not in its document.
func (i *Image) tag() string { return i.Labels[recipe.OCIPrefix+"version"] }

// facts are what only our images know of themselves.
func (i *Image) facts() (all []fact) {
	for _, f := range []fact{
		{"architecture", i.Arch},
		{"driver", i.Driver},
		{"profile", i.Profile},
		{"flavours", strings.Join(sortedWords(i.Flavours), ",")},
		{"kernels", i.Labels[recipe.LabelKernels]},
		{"overridden", i.Labels[recipe.LabelOverridden]},
		{"content", i.Labels[recipe.LabelContent]},
		{"revision", i.Labels[recipe.OCIPrefix+"revision"]},
	} {
		if f.value != "" {
			all = append(all, f)
		}
	}
	return all
}

// addPackages adds the packages of the system. The recipe knows where those come from that the base did not
// have.
func (g *graph) addPackages(i *Image, system string) {
	origins := i.origins()
	list := slices.SortedFunc(slices.Values(i.Packages), func(a, b packages.Installed) int {
		return strings.Compare(packageKey(a.Name, a.Version, a.Arch), packageKey(b.Name, b.Version, b.Arch))
	})
	for _, p := range list {
		c := i.packageComponent(p)
		names, texts := debianLicences(i.copyrights[p.Name])
		if p.Licence != "" {
			names = []string{p.Licence}
		}
		c.licence = g.packageLicence(names, texts)
		c.origin(origins[packageKey(p.Name, p.Version, p.Arch)])
		g.relate(system, contains, g.add(c))
	}
}

// packageKey names a package of an image.
func packageKey(name, version, arch string) string { return name + " " + version + " " + arch }

// origins are the packages that the recipe names, by packageKey.
func (i *Image) origins() map[string]distros.Package {
	all := map[string]distros.Package{}
	if i.recipe == nil {
		return all
	}
	for _, p := range i.recipe.AllPackages() {
		all[packageKey(p.Name, p.Version, p.Arch)] = p
	}
	return all
}

func (i *Image) packageComponent(p packages.Installed) component {
	c := component{
		id: strings.Join([]string{"Package", i.Arch, p.Kind, p.Name, p.Version, p.Arch}, "-"), name: p.Name, version: p.Version,
		purl: i.packagePURL(p), supplier: p.Supplier,
	}
	if p.Source != "" {
		c.source = p.Source + " " + p.SourceVersion
	}
	return c
}

// origin adds where a package was downloaded from.
func (c *component) origin(p distros.Package) {
	c.download = p.URL
	if p.SHA256 != "" {
		c.sums = append(c.sums, sum{"SHA256", p.SHA256})
	}
	if p.SHA512 != "" {
		c.sums = append(c.sums, sum{"SHA512", p.SHA512})
	}
}

// pinned is the component of a package that the image's record does not list: one with a part of the driver,
// or one that only the build used.
func (i *Image) pinned(p distros.Package, source string) component {
	kind := strings.TrimPrefix(path.Ext(p.URL), ".")
	if len(i.Packages) > 0 {
		kind = i.Packages[0].Kind // all packages of an image are of one kind
	}
	known := packages.Installed{Name: p.Name, Version: p.Version, Arch: p.Arch, Kind: kind, Source: source}
	if source != "" {
		known.SourceVersion = p.Version
	}
	c := i.packageComponent(known)
	c.origin(p)
	return c
}

package documents

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// addModules adds the sets of compiled modules, with what they were made from.
func (g *graph) addModules(i *ImageContent, image, driver string) {
	for _, s := range i.Modules {
		if s.Damage != "" {
			continue // verify says what is wrong with the set
		}
		dir := "/" + path.Join(recipe.ModulesDir, s.Folder)
		about := facts("kernel", s.Kernel, "flavour", s.Flavour, "compiler", s.Compiler)
		if s.Certificate != "" {
			about = append(about, fact{"signing certificate", "sha256:" + s.Certificate})
		}
		set := g.contain(image, component{
			id: "Modules-" + i.Arch + "-" + s.Folder, purpose: "OTHER", name: "nvidia-kernel-modules-" + s.Flavour, version: s.Driver, path: dir,
			supplier: nvidia, licence: g.flavourLicence(s.Flavour), facts: about,
		})
		from := driver
		if slices.Contains(i.Flavours, s.Flavour) {
			from = identifier("Sources-" + i.Arch + "-" + s.Flavour)
		}
		packaged := g.addSignedPackages(i, s.Kernel, s.Flavour, set)
		if !packaged {
			g.relate(set, generatedFrom, from)
		}
		for _, m := range s.Modules {
			file := dir + "/" + m.Name + ".ko"
			g.contain(set, component{
				id: "File-" + i.Arch + file, purpose: "FILE", name: m.Name + ".ko", version: s.Driver, path: file, sums: sha256Sum(i.sums[file]),
				facts: facts(
					"vermagic",
					strings.TrimSpace(m.Vermagic),
					"srcversion",
					m.SrcVersion,
					"signer",
					m.Signer,
					"signature hash",
					m.Hash,
					"signing key",
					m.KeyID,
				),
			})
		}
		g.addBuildDependencies(i, s.Kernel, set)
	}
}

// addSignedPackages adds the packages of a set that the distribution signed. They are not in the
// image. It returns false for a set that was compiled.
func (g *graph) addSignedPackages(i *ImageContent, release, flavour, set string) (packaged bool) {
	for _, k := range i.recipe.Kernels {
		if k.Release != release {
			continue
		}
		for _, p := range k.Signed[flavour] {
			c := i.pinned(p, "")
			c.buildOnly = true
			g.relate(set, generatedFrom, g.add(c))
			packaged = true
		}
	}
	return packaged
}

// addBuildDependencies adds the compiler's packages and the kernel's headers, or the image that has
// both. They were beside the modules when these were compiled, and are not in the image, unless it
// can compile itself.
func (g *graph) addBuildDependencies(i *ImageContent, release, set string) {
	add := func(c component) {
		c.buildOnly = true
		g.relate(g.add(c), buildDependencyOf, set)
	}
	used := slices.Clone(i.recipe.Compiler)
	for _, k := range i.recipe.Kernels {
		if k.Release == release {
			used = append(used, k.Headers...)
			if k.Toolkit != nil {
				add(i.otherImage("Toolkit-"+i.Arch+"-"+release, "toolkit", *k.Toolkit))
			}
		}
	}
	for _, p := range used {
		add(i.pinned(p, ""))
	}
}

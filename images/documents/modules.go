package documents

import (
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// addModules adds the sets of compiled modules, with what they were made from.
func (g *graph) addModules(i *Image, image, driver string) {
	sums := map[string]string{}
	for _, f := range i.ModuleFiles {
		sums[f.Path] = f.SHA256
	}
	for _, s := range i.Modules {
		if s.Damage != "" {
			continue // verify says what is wrong with the set
		}
		dir := "/" + path.Join(recipe.ModulesDir, s.Folder)
		set := g.add(component{
			id: "Modules-" + i.Arch + "-" + s.Folder, purpose: "OTHER", name: "nvidia-kernel-modules-" + s.Flavour, version: s.Driver, path: dir,
			supplier: nvidia, licence: g.flavourLicence(s.Flavour), facts: setFacts(s),
		})
		g.relate(image, contains, set)
		from := driver
		for _, source := range i.Sources {
			if source.Flavour == s.Flavour {
				from = identifier("Sources-" + i.Arch + "-" + s.Flavour)
			}
		}
		g.relate(set, generatedFrom, from)
		for _, m := range s.Modules {
			file := dir + "/" + m.Name + ".ko"
			g.relate(set, contains, g.add(component{
				id: "File-" + i.Arch + file, purpose: "FILE", name: m.Name + ".ko", version: s.Driver, path: file, sums: []sum{{"SHA256", sums[file]}},
				facts: moduleFacts(m),
			}))
		}
		g.addBuildDependencies(i, s.Kernel, set)
	}
}

func setFacts(s verify.ModuleSet) []fact {
	facts := []fact{{"kernel", s.Kernel}, {"flavour", s.Flavour}, {"compiler", s.Compiler}}
	if s.Certificate != "" {
		facts = append(facts, fact{"signing certificate", "sha256:" + s.Certificate})
	}
	return facts
}

func moduleFacts(m verify.ModuleInfo) (facts []fact) {
	for _, f := range []fact{
		{"vermagic", strings.TrimSpace(m.Vermagic)}, {"srcversion", m.SrcVersion}, {"signer", m.Signer}, {"signature hash",
			m.Hash}, {"signing key", m.KeyID},
	} {
		if f.value != "" {
			facts = append(facts, f)
		}
	}
	return facts
}

// toolkitPrefix begins the ids of images that modules were compiled in.
const toolkitPrefix = "Toolkit-"

// addBuildDependencies adds the compiler's packages and the kernel's headers, or the image that has
// both. They were beside the modules when these were compiled, and are not in the image, unless it can
// compile itself.
func (g *graph) addBuildDependencies(i *Image, release, set string) {
	if i.recipe == nil {
		return
	}
	add := func(p distros.Package) {
		c := i.pinned(p, "")
		c.buildOnly = true
		g.relate(g.add(c), buildDependencyOf, set)
	}
	for _, p := range i.recipe.Compiler {
		add(p)
	}
	for _, k := range i.recipe.Kernels {
		if k.Release != release {
			continue
		}
		for _, p := range k.Headers {
			add(p)
		}
		if k.Toolkit != nil {
			c := i.otherImage(toolkitPrefix+i.Arch+"-"+release, "toolkit", *k.Toolkit)
			c.buildOnly = true
			g.relate(g.add(c), buildDependencyOf, set)
		}
	}
}

// addPrograms adds our own programs. They are static, so their modules are in them.
func (g *graph) addPrograms(i *Image, image string) {
	for _, p := range i.OwnPrograms {
		c := component{
			id: "Program-" + i.Arch + p.Path, purpose: "APPLICATION", name: path.Base(p.Path), path: p.Path, sums: []sum{{"SHA256", p.SHA256}},
		}
		if p.Build != nil {
			main := p.Build.Main
			if rest, ok := cutModule(p.Build.Path, main.Path); ok {
				c.purl = goPURL(main.Path, main.Version, rest)
			}
			if c.version = main.Version; c.version == "(devel)" {
				c.version = ""
			}
		}
		id := g.add(c)
		g.relate(image, contains, id)
		if p.Build == nil {
			continue
		}
		if v := goVersion(p.Build.GoVersion); v != "" {
			g.relate(id, contains, g.add(component{id: "Go-stdlib-" + v, purpose: "LIBRARY", name: "stdlib", version: v, purl: goPURL("stdlib", v,
				""), licence: "BSD-3-Clause"}))
		}
		for _, m := range p.Build.Deps {
			for m.Replace != nil {
				m = m.Replace
			}
			dep := component{id: "Go-" + m.Path + "-" + m.Version, purpose: "LIBRARY", name: m.Path, version: m.Version, purl: goPURL(m.Path,
				m.Version, "")}
			if m.Sum != "" {
				dep.facts = []fact{{"go.sum", m.Sum}}
			}
			g.relate(id, contains, g.add(dep))
		}
	}
}

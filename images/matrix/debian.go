package matrix

import (
	"go.yaml.in/yaml/v4"
)

// debian reads the package source of a driver. version points to the driver's version, which may come later
// in the file: checks that depend on it run at the end.
func (d *decoder) debian(to *Debian, n *yaml.Node, version *string) {
	names := func(what string, to *[]string) reader {
		return d.texts(what, to, shape(packageShape, "is no package name"))
	}
	d.mapping(n, "debian",
		key{name: "systems", required: true, read: func(n *yaml.Node) { d.debianSystems(to, n, version) }},
		key{name: "archs", read: d.texts("archs", &to.Archs, oneOf(knownArchs))},
		key{name: "packages", required: true, read: names("packages", &to.Packages)},
		key{name: "only", read: func(n *yaml.Node) {
			to.Only = map[string][]string{}
			d.pairs(n, "only", func(arch string, at, value *yaml.Node) {
				if wrong := oneOf(knownArchs)(arch); wrong != "" {
					d.errorf(at, "architecture %s %s", quoted(arch), wrong)
				}
				var list []string
				names("the packages only for "+quoted(arch), &list)(value)
				to.Only[arch] = list
			})
		}},
		key{name: "kernel", required: true, read: names("kernel", &to.Kernel)},
		key{name: "extras", read: names("extras", &to.Extras)},
		key{name: "depends", read: names("depends", &to.Depends)},
	)
	if len(to.Archs) == 0 {
		to.Archs = append(to.Archs, knownArchs...)
	}
}

// debianSystems reads "system: Debian version".
func (d *decoder) debianSystems(to *Debian, n *yaml.Node, version *string) {
	to.Versions = map[string]string{}
	d.pairs(n, "systems of debian", func(id string, at, value *yaml.Node) {
		var v string
		d.text("the Debian version", &v, shape(debianShape, "is no Debian version"))(value)
		if v == "" {
			return
		}
		to.Systems = append(to.Systems, id)
		to.Versions[id] = v
		d.refs = append(d.refs, reference{kind: kindSystem, word: id, at: at})
		d.refs = append(d.refs, reference{kind: kindUpstream, word: v, at: value, version: version})
	})
}

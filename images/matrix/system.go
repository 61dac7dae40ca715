package matrix

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// armour begins a key that is written out.
const armour = "-----BEGIN"

func (d *decoder) system(to *System, n *yaml.Node) {
	var repositories []*yaml.Node
	var only *yaml.Node
	d.mapping(n, "a system",
		key{name: "id", required: true, read: d.readDefinition(kindSystem, &to.ID)},
		key{name: "base", required: true, read: d.text("base", &to.Base, baseReference)},
		key{name: "archs", required: true, read: d.texts("archs", &to.Archs, oneOf(knownArchs))},
		key{name: "kernels", required: true, read: func(n *yaml.Node) { d.kernels(&to.Kernels, n) }},
		key{name: "components", read: d.texts("components", &to.Components,
			shape(componentShape, "is no name of a repository component"))},
		key{name: "aliases", read: d.aliases(&to.Aliases)},
		key{name: "repositories", read: d.list("repositories", func(n *yaml.Node) {
			var r Repository
			d.repository(&r, n)
			to.Repositories, repositories = append(to.Repositories, r), append(repositories, n)
		})},
		key{name: "only-these-repositories", read: func(n *yaml.Node) {
			only = n
			d.flag("only-these-repositories", &to.ReplaceRepositories)(n)
		}},
		key{name: "allow-expired", read: d.flag("allow-expired", &to.AllowExpired)},
	)
	if to.ReplaceRepositories && len(to.Repositories) == 0 {
		d.errorf(only, "only-these-repositories without repositories: there would be none")
	}
	d.checkRepositoryKind(to, n, repositories)
}

// checkRepositoryKind checks that the repositories and their settings are of the system's kind of packages.
func (d *decoder) checkRepositoryKind(s *System, n *yaml.Node, repositories []*yaml.Node) {
	system, err := distros.Lookup(s.ID)
	if err != nil {
		return // reported with the references
	}
	manager := distros.Userland(system).PackageManager()
	if len(s.Components) > 0 && manager != "apt" {
		d.errorf(n, "system %s has components: repositories of %s packages have none", s.ID, manager)
	}
	for i, r := range s.Repositories {
		switch {
		case manager == "apt" && r.BaseURLs != nil:
			d.errorf(repositories[i], "a repository of %s has baseurl, but its packages are .deb: give uris, suites and components", s.ID)
		case manager == "rpm" && r.URIs != nil:
			d.errorf(repositories[i], "a repository of %s has uris, but its packages are .rpm: give baseurl", s.ID)
		}
	}
}

// aliases reads names that are used like ids of systems. The references check that each is unique.
func (d *decoder) aliases(to *[]string) reader {
	return d.list("aliases", func(n *yaml.Node) {
		var s string
		d.text("an entry of aliases", &s, shape(aliasShape, "is no name of a system as it stands in tags, such as almalinux9.4"))(n)
		if s != "" {
			*to = append(*to, s)
			d.refs = append(d.refs, reference{kind: kindAlias, word: s, at: n, isDefinition: true})
		}
	})
}

// kernels reads series in ascending order. The rules compare the first and the last.
func (d *decoder) kernels(to *[]string, n *yaml.Node) {
	var last string
	d.list("kernels", func(n *yaml.Node) {
		var k string
		d.text("an entry of kernels", &k, kernelSeries)(n)
		if k == "" {
			return
		}
		if last != "" && driverinfo.CompareKernels(last, k) >= 0 {
			d.errorf(n, "kernel %s after %s: list the kernels from the lowest to the highest", k, last)
			return
		}
		last = k
		*to = append(*to, k)
	})(n)
}

func (d *decoder) repository(to *Repository, n *yaml.Node) {
	d.mapping(n, "a repository",
		key{name: "uris", read: d.texts("uris", &to.URIs, webURL)},
		key{name: "suites", read: d.texts("suites", &to.Suites, shape(suiteShape, "is no suite"))},
		key{name: "components", read: d.texts("components", &to.Components,
			shape(componentShape, "is no name of a repository component"))},
		key{name: "baseurl", read: d.texts("baseurl", &to.BaseURLs, webURL)},
		key{name: "gpgkey", read: d.texts("gpgkey", &to.GPGKeys, keyPath)},
		key{name: "key", read: d.keyText(&to.Key)},
	)
	if n.Kind != yaml.MappingNode || d.tooManyErrors() {
		return // reported already
	}
	has := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		has[n.Content[i].Value] = true
	}
	// Without a key nothing could be verified, so a key is mandatory.
	if has["baseurl"] && has["gpgkey"] == has["key"] {
		d.errorf(n, "a repository with baseurl needs either gpgkey or key")
	}
	for _, name := range []string{"uris", "suites", "components"} {
		if has[name] == has["baseurl"] {
			d.requireKey(n, name, "baseurl", has[name])
		}
	}
	if !has["baseurl"] && !has["key"] {
		d.errorf(n, "a repository has no key key")
	}
	if !has["baseurl"] && has["gpgkey"] {
		d.requireKey(n, "gpgkey", "uris", true)
	}
}

// keyText reads an armoured key, or the name of a file with one. It refuses web addresses, because nothing
// proves that a key from the web is authentic.
func (d *decoder) keyText(to *string) reader {
	return func(n *yaml.Node) {
		d.text("key", to, func(s string) string {
			if strings.Contains(s, "://") && !strings.Contains(s, armour) {
				return "is a web address, and nothing proves that a key from there is authentic: give a file beside the matrix, or the key itself"
			}
			return ""
		})(n)
		if *to == "" || strings.Contains(*to, armour) || d.files.Key == nil {
			return
		}
		text, err := d.files.Key(*to)
		if err != nil {
			d.errorf(n, "key %s cannot be read: %v", quoted(*to), err)
		}
		*to = text
	}
}

// requireKey reports a key that is missing in a repository, or that belongs to the other kind of repository.
func (d *decoder) requireKey(n *yaml.Node, name, other string, there bool) {
	if there {
		d.errorf(n, "a repository has both %s and %s: uris, suites, components and key are for .deb packages, baseurl with gpgkey or key for .rpm packages", other, name)
		return
	}
	d.errorf(n, "a repository has no key %s", name)
}

package apt

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// Resolve returns the packages to add to a system, or to upgrade in it, so that it has every wanted
// package with all dependencies (Depends and Pre-Depends, not Recommends). They are sorted by name.
// A want is "name", "name=version" or "name:arch", also of a virtual package. The packages of st
// (nil: none) stay unchanged wherever they suffice; Resolve upgrades them when a dependency or a
// conflict requires it, and never removes or downgrades them.
//
// The choice is a pure function of index, status and wants. All wants come first, then the needs of
// each, depth first; alternatives in their order, except that an installed or chosen one comes
// first; a package of the name before packages that provide it, and these by priority and then
// name. Errors: *distros.UnresolvableError, or distros.ErrIndex for entries that do not parse.
func (x *Index) Resolve(st *dpkg.Status, want []string) ([]Package, error) {
	s, err := x.solver(st)
	if err != nil {
		return nil, err
	}
	for _, w := range want {
		rel, err := parseWant(w)
		if err != nil {
			return nil, err
		}
		if err := s.satisfy(nil, []dpkg.Relation{rel}); err != nil {
			return nil, err
		}
	}
	for _, it := range s.requested {
		err := s.settle(it)
		if err != nil {
			return nil, err
		}
	}
	var out []Package
	for _, it := range s.current {
		if it.entry == nil {
			continue
		}
		p, err := it.entry.toPackage()
		if err != nil {
			return nil, err
		}
		p.Replaces = it.replaces
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// parseWant parses one request.
func parseWant(want string) (dpkg.Relation, error) {
	name, version, versioned := strings.Cut(want, "=")
	text := name
	if versioned {
		text += " (= " + version + ")"
	}
	rels, err := dpkg.ParseRelations(text)
	if err != nil || len(rels) != 1 || len(rels[0]) != 1 ||
		strings.ContainsAny(name, " \t|,()[]<>") {
		return dpkg.Relation{}, distros.BadSources(
			"package %q was asked for: want name, name=version or name:architecture",
			want,
		)
	}
	return rels[0][0], nil
}

// item is a package in the system that the solver builds: already installed, or chosen.
type item struct {
	entry     *entry // nil: installed before
	name      string
	version   dpkg.Version
	arch      string
	multiArch string
	paragraph dpkg.Paragraph
	depends   dpkg.Relations // Pre-Depends and Depends
	excludes  dpkg.Relations // Conflicts and Breaks
	provides  dpkg.Relations
	replaces  string // the version that it replaces
	by        *item  // the item that needs it; nil: it was requested or already installed
}

func (it *item) String() string { return it.name + " " + string(it.version) }

// chain returns the path from the requested package to this one.
func (it *item) chain() []string {
	var out []string
	for n := 0; it != nil && n < 100; it, n = it.by, n+1 {
		out = append(out, it.String())
	}
	slices.Reverse(out)
	return out
}

func newItem(p dpkg.Paragraph, e *entry) (*item, error) {
	it := &item{
		entry: e, name: p.Get("Package"), version: dpkg.Version(p.Get("Version")), arch: p.Get("Architecture"),
		multiArch: p.Get("Multi-Arch"), paragraph: p,
	}
	for _, f := range []struct {
		field string
		into  *dpkg.Relations
	}{
		{"Pre-Depends", &it.depends},
		{"Depends", &it.depends},
		{"Conflicts", &it.excludes},
		{"Breaks", &it.excludes},
		{"Provides", &it.provides},
	} {
		v := p.Get(f.field)
		if v == "" {
			continue
		}
		rels, err := dpkg.ParseRelations(v)
		if err != nil {
			return nil, distros.BadIndex("package %s: %s: %w", it, f.field, err)
		}
		*f.into = append(*f.into, rels...)
	}
	return it, nil
}

// names returns all names by which relations can refer to it.
func (it *item) names() []string {
	out := []string{it.name}
	for _, g := range it.provides {
		for _, r := range g {
			if !slices.Contains(out, r.Name) {
				out = append(out, r.Name)
			}
		}
	}
	return out
}

// meets reports whether a relation refers to this item: by its own name, or by a Provides. A
// Provides meets a version restriction only if it has a version itself (policy 7.5).
func (it *item) meets(r dpkg.Relation) bool {
	if it.name == r.Name && r.Matches(it.version) {
		return true
	}
	for _, g := range it.provides {
		for _, p := range g {
			if p.Name == r.Name && (r.Op == "" || p.Op == "=" && r.Matches(p.Version)) {
				return true
			}
		}
	}
	return false
}

package rpm

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Package is a package of a repository. Its Metadata holds the files that the repository's primary list names
// (those in /etc and in the bin folders) and those that were searched for since; that is never the complete
// list.
type Package struct {
	distros.Package
	Metadata rpmfile.Metadata `json:"-"` // not embedded: both have a Name and an Arch

	Origin        string `json:"-"` // id of its source, "baseos", for messages
	Priority      int    `json:"-"` // of its source; the lower number wins
	InstalledSize int64  `json:"-"` // bytes
	// Hidden says why the package is not available although the repository holds it: it belongs to a stream of a
	// module that is not active, an active stream shadows it, or the source excludes it. It is empty for all
	// packages except those that Index.hidden returns.
	Hidden string `json:"-"`
}

// String returns "name version", the form in which messages name packages.
func (p *Package) String() string { return p.Name + " " + p.Version }

// Index holds the packages that all repositories together offer for one architecture. It does not change and
// may be shared: the same package is always returned as the same pointer, and callers must not write to it.
type Index struct {
	releases *Releases
	arch     string
	entries  []entry            // in the order of less; includes the hidden ones
	provides map[string][]int32 // the entries by the names that they provide, and by the paths of the files in the primary lists
	obsolete map[string][]int32 // the entries by the names that they obsolete
	notes    []string

	mu    sync.Mutex
	made  []*Package // by index of the entry; nil until asked for
	files fileTable
}

// build sorts the entries and fills the tables. If several repositories hold the same package, only the first
// one in that order is kept.
func (x *Index) build() {
	slices.SortStableFunc(x.entries, less)
	x.entries = slices.CompactFunc(x.entries, func(a, b entry) bool {
		return a.name == b.name && a.arch == b.arch && (a.hidden == "") == (b.hidden == "") && rpmfile.Compare(a.evr, b.evr) == 0
	})
	x.made = make([]*Package, len(x.entries))
	x.provides, x.obsolete = map[string][]int32{}, map[string][]int32{}
	add := func(to map[string][]int32, name string, i int) {
		if have := to[name]; len(have) == 0 || int(have[len(have)-1]) != i {
			to[name] = append(have, int32(i)) //nolint:gosec // bounded by maxPackages
		}
	}
	for i := range x.entries {
		e := &x.entries[i]
		for name := range e.providedNames {
			add(x.provides, name, i)
		}
		for _, r := range e.relationsOf(e.obsoletes) {
			add(x.obsolete, r.name, i)
		}
	}
}

// less orders entries by name, priority of the source, newest version, best architecture, cheapest source;
// hidden entries come after all others of the name.
func less(a, b entry) int {
	return cmp.Or(
		strings.Compare(a.name, b.name),
		cmp.Compare(min(len(a.hidden), 1), min(len(b.hidden), 1)),
		cmp.Compare(a.priority, b.priority),
		rpmfile.Compare(b.evr, a.evr),
		cmp.Compare(ArchRank(a.arch), ArchRank(b.arch)),
		cmp.Compare(a.cost, b.cost),
	)
}

// span returns the range of the entries that have one name.
func (x *Index) span(name string) (from, to int) {
	from = sort.Search(len(x.entries), func(i int) bool { return x.entries[i].name >= name })
	for to = from; to < len(x.entries) && x.entries[to].name == name; {
		to++
	}
	return from, to
}

// at returns the package of an entry, always the same pointer.
func (x *Index) at(i int) *Package {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.made[i] == nil {
		x.made[i] = x.entries[i].make()
	}
	return x.made[i]
}

// Candidate returns the package that would be installed for a name: from the sources with the best priority
// the newest version, of that the best architecture. It returns false if there is none.
func (x *Index) Candidate(name string) (*Package, bool) {
	for i, to := x.span(name); i < to; i++ {
		if x.entries[i].hidden == "" {
			return x.at(i), true
		}
	}
	return nil, false
}

// Versions returns all available packages of a name, of every architecture, ordered by the priority of their
// sources, then newest version first, then best architecture first.
func (x *Index) Versions(name string) []*Package {
	var out []*Package
	for i, to := x.span(name); i < to; i++ {
		if x.entries[i].hidden == "" {
			out = append(out, x.at(i))
		}
	}
	return out
}

// WhatProvides returns the packages that meet a relation by their name, by something they provide, or by a
// file of the primary list. The order is that of their names, then that of Versions.
func (x *Index) WhatProvides(want rpmfile.Relation) []*Package { return x.providers(want, false) }

// hidden returns the hidden packages that would otherwise meet a relation, for messages; see Package.Hidden.
func (x *Index) hidden(want rpmfile.Relation) []*Package { return x.providers(want, true) }

func (x *Index) providers(want rpmfile.Relation, hidden bool) []*Package {
	var out []*Package
	for _, i := range x.provides[want.Name] {
		if (x.entries[i].hidden != "") != hidden {
			continue
		}
		if p := x.at(int(i)); p.Metadata.Meets(want) {
			out = append(out, p)
		}
	}
	return out
}

// Providing returns the packages that provide a name in whatever version, including the hidden ones: for
// messages.
func (x *Index) Providing(name string) []*Package {
	var out []*Package
	for _, i := range x.provides[name] {
		out = append(out, x.at(int(i)))
	}
	return out
}

// Obsoleting returns the available packages that obsolete something of that name, whatever the version.
func (x *Index) Obsoleting(name string) []*Package {
	var out []*Package
	for _, i := range x.obsolete[name] {
		if x.entries[i].hidden == "" {
			out = append(out, x.at(int(i)))
		}
	}
	return out
}

// Find returns one package without its dependencies. The argument is "name" for the candidate, or
// "name.arch", "name-version", "name-version-release" or "name = version" for exactly that package. The error
// is *distros.UnresolvableError with the versions that exist.
func (x *Index) Find(want string) (*Package, error) {
	if p, ok := x.Candidate(want); ok {
		return p, nil
	}
	if req, err := rpmfile.ParseRequirement(want); err == nil && req.Kind == "" && req.Relation.Op != "" {
		rel := req.Relation
		if found := x.WhatProvides(rel); len(found) > 0 {
			return found[0], nil
		}
		return nil, x.missing(want, rel.Name)
	}
	for _, name := range prefixes(want) {
		for _, p := range x.Versions(name) {
			if p.called(want) {
				return p, nil
			}
		}
	}
	return nil, x.missing(want, prefixes(want)...)
}

// prefixes returns the parts of a text that may be the name of a package, the longest first: "a-1-2.x" may be
// "a-1-2", "a-1" or "a".
func prefixes(want string) []string {
	out := []string{want}
	if i := strings.LastIndexByte(want, '.'); i > 0 {
		out = append(out, want[:i])
	}
	for range 2 {
		i := strings.LastIndexByte(want, '-')
		if i <= 0 {
			break
		}
		want = want[:i]
		out = append(out, want)
	}
	return out
}

// called reports whether a text names this package.
func (p *Package) called(want string) bool {
	e := p.Metadata.EVR
	for _, version := range []string{"", "-" + e.Version, "-" + e.Version + "-" + e.Release, "-" + p.Version} {
		if want == p.Name+version || want == p.Name+version+"."+p.Arch {
			return true
		}
	}
	return false
}

// missing returns the error that explains why a package was not found.
func (x *Index) missing(want string, names ...string) error {
	e := &distros.UnresolvableError{Relation: want, Reason: "no repository has a package of that name"}
	for _, name := range names {
		for _, p := range x.Versions(name) {
			e.Versions = append(e.Versions, fmt.Sprintf("%s.%s (%s)", p, p.Arch, p.Origin))
			e.Reason = "no repository has this version"
		}
		for _, p := range x.hidden(rpmfile.Relation{Name: name}) {
			e.Versions = append(e.Versions, fmt.Sprintf("%s.%s (%s), but %s", p, p.Arch, p.Origin, p.Hidden))
		}
	}
	return e
}

// Arch returns rpm's name of the architecture that the packages are for.
func (x *Index) Arch() string { return x.arch }

// Notes returns messages for users, such as repositories that were left out because they cannot be reached.
func (x *Index) Notes() []string { return slices.Clone(x.notes) }

// Len returns the number of packages, every version counted, without the hidden ones.
func (x *Index) Len() int {
	n := 0
	for i := range x.entries {
		if x.entries[i].hidden == "" {
			n++
		}
	}
	return n
}

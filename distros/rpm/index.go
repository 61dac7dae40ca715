package rpm

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Package is a package of a repository. Its Metadata holds the files that the repository's primary
// list names (those in /etc and in the bin folders) and those that were searched for since; that is
// never the complete list.
type Package struct {
	distros.Package
	Metadata rpmfile.Metadata `json:"-"` // not embedded: both have a Name and an Arch

	Origin   string `json:"-"` // id of its source, "baseos", for messages
	Priority int    `json:"-"` // of its source; the lower number wins
	Cost     int    `json:"-"` // of its source; decides at the same priority
	Hotfix   bool   `json:"-"` // its source has module_hotfixes: modules do not hide it
	// Hidden says why the package is not available although the repository holds it: it belongs to
	// a stream of a module that is not active, an active stream shadows it, or the source excludes
	// it. It is empty for all packages except some that Index.Providing returns.
	Hidden string `json:"-"`
}

// String returns "name version", the form in which messages name packages.
func (p *Package) String() string { return p.Name + " " + p.Version }

// Index holds the packages that all repositories together offer for one architecture. It does not
// change and may be shared: the same package is always returned as the same pointer, and callers
// must not write to it.
type Index struct {
	arch     string
	packages []*Package // in the order of less; includes the hidden ones
	// by the names that they provide, and by the paths of the files in the primary lists
	provides map[string][]int32
	obsolete map[string][]int32 // by the names that they obsolete
	notes    []string
	repos    []*repo // with lists of files
	files    fileTable
}

// NewIndex returns an index of packages. If several repositories hold the same package, only the
// first one in the order of the index is kept.
func NewIndex(arch string, packages []*Package) *Index {
	x := &Index{
		arch:     arch,
		packages: packages,
		provides: map[string][]int32{},
		obsolete: map[string][]int32{},
	}
	slices.SortStableFunc(x.packages, less)
	x.packages = slices.CompactFunc(x.packages, func(a, b *Package) bool {
		return a.Name == b.Name && a.Arch == b.Arch && (a.Hidden == "") == (b.Hidden == "") &&
			rpmfile.Compare(a.Metadata.EVR, b.Metadata.EVR) == 0
	})
	add := func(to map[string][]int32, name string, i int) {
		if have := to[name]; len(have) == 0 || int(have[len(have)-1]) != i {
			to[name] = append(have, int32(i)) //nolint:gosec // bounded by maxPackages
		}
	}
	for i, p := range x.packages {
		for _, name := range p.providedNames() {
			add(x.provides, name, i)
		}
		for _, r := range p.Metadata.Obsoletes {
			add(x.obsolete, r.Name, i)
		}
	}
	return x
}

// less orders packages by name, priority of the source, newest version, best architecture, cheapest
// source; hidden ones come after all others of the name.
func less(a, b *Package) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c // before the versions, which take longer
	}
	return cmp.Or(
		cmp.Compare(min(len(a.Hidden), 1), min(len(b.Hidden), 1)),
		cmp.Compare(a.Priority, b.Priority),
		rpmfile.Compare(b.Metadata.EVR, a.Metadata.EVR),
		cmp.Compare(ArchRank(a.Arch), ArchRank(b.Arch)),
		cmp.Compare(a.Cost, b.Cost),
	)
}

// Candidate returns the package that would be installed for a name: from the sources with the best
// priority the newest version, of that the best architecture. It returns false if there is none.
func (x *Index) Candidate(name string) (*Package, bool) {
	if all := x.Versions(name); len(all) > 0 {
		return all[0], true
	}
	return nil, false
}

// Versions returns all available packages of a name, of every architecture, ordered by the priority
// of their sources, then newest version first, then best architecture first.
func (x *Index) Versions(name string) []*Package {
	from := x.first(name)
	to := from
	// hidden ones come after all others
	for to < len(x.packages) && x.packages[to].Name == name && x.packages[to].Hidden == "" {
		to++
	}
	return slices.Clip(x.packages[from:to])
}

// first returns the first package whose name does not sort before this one.
func (x *Index) first(name string) int {
	return sort.Search(len(x.packages), func(i int) bool { return x.packages[i].Name >= name })
}

// Names returns the names of available packages that begin with a prefix, sorted, each once.
func (x *Index) Names(prefix string) (names []string) {
	for _, p := range x.packages[x.first(prefix):] {
		if !strings.HasPrefix(p.Name, prefix) {
			break
		}
		if p.Hidden == "" {
			names = append(names, p.Name)
		}
	}
	return slices.Compact(names)
}

// WhatProvides returns the packages that meet a relation by their name, by something they provide,
// or by a file of the primary list. The order is that of their names, then that of Versions.
func (x *Index) WhatProvides(want rpmfile.Relation) []*Package {
	return slices.DeleteFunc(
		x.available(x.provides[want.Name]),
		func(p *Package) bool { return !p.Metadata.Meets(want) },
	)
}

// available returns those of some packages that are not hidden.
func (x *Index) available(some []int32) (out []*Package) {
	for _, i := range some {
		if p := x.packages[i]; p.Hidden == "" {
			out = append(out, p)
		}
	}
	return out
}

// Providing returns the packages that provide a name in whatever version, including the hidden
// ones: for messages.
func (x *Index) Providing(name string) []*Package {
	var out []*Package
	for _, i := range x.provides[name] {
		out = append(out, x.packages[i])
	}
	return out
}

// Obsoleting returns the available packages that obsolete something of that name, whatever the
// version.
func (x *Index) Obsoleting(name string) []*Package { return x.available(x.obsolete[name]) }

// Arch returns rpm's name of the architecture that the packages are for.
func (x *Index) Arch() string { return x.arch }

// Notes returns messages for users, such as repositories that were left out because they cannot be
// reached.
func (x *Index) Notes() []string { return slices.Clone(x.notes) }

// Len returns the number of packages, every version counted, without the hidden ones.
func (x *Index) Len() int {
	n := 0
	for _, p := range x.packages {
		if p.Hidden == "" {
			n++
		}
	}
	return n
}

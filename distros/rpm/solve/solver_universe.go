package solve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// solvable is a package that is installed or could be.
type solvable struct {
	*rpmfile.Metadata
	pkg     *rpm.Package // nil: installed
	beside  bool         // other versions may be installed beside it
	offered bool         // it is installed, and a repository has the same version
}

func (p *solvable) String() string { return p.Name + " " + evrText(p.EVR) }

// universe assigns numbers to packages: from 1 to the installed ones, then to those of the index
// when they are first used.
type universe struct {
	x         *rpm.Index
	owned     func(path string) ([]*rpm.Package, error) // Index.Owners
	all       []*solvable                               // all[0] is unused
	installed int
	stays     []int       // by installed package: the number of its byStaying clause,
	ways      [][]literal // and the literals of that clause
	asked     []literal   // packages that would meet a request
	numbers   map[*rpm.Package]int
	same      map[string]int   // installed packages by name, version and architecture
	names     map[string][]int // installed packages by name
	provided  map[string][]int // installed packages by what they provide, and by path
	// the lists of files must be used even if an installed package has a file
	lists bool
	// packages assumed to have a file because an installed version of them has it
	guessed map[int]bool
	givenUp map[literal]bool // packages that are exempt from all preferences
	cache   map[rpmfile.Relation][]literal
}

// newUniverse returns a universe of the installed packages, without packages that have no
// architecture (keys) and sources.
func newUniverse(
	x *rpm.Index,
	owned func(string) ([]*rpm.Package, error),
	installed []rpmfile.Metadata,
) *universe {
	u := &universe{
		x: x, owned: owned, all: []*solvable{nil}, numbers: map[*rpm.Package]int{}, same: map[string]int{}, names: map[string][]int{},
		provided: map[string][]int{}, guessed: map[int]bool{}, givenUp: map[literal]bool{}, cache: map[rpmfile.Relation][]literal{},
	}
	list := make([]*rpmfile.Metadata, 0, len(installed))
	for i := range installed {
		if m := &installed[i]; m.Arch != "" && m.Arch != "src" && m.Arch != "nosrc" &&
			m.Name != "gpg-pubkey" {
			list = append(list, m)
		}
	}
	// so that the result does not depend on the order of the database
	slices.SortStableFunc(list, compareMetadata)
	for _, m := range list {
		n := len(u.all)
		u.all = append(u.all, &solvable{Metadata: m, beside: installsBeside(m)})
		u.same[identity(m)] = n
		u.names[m.Name] = append(u.names[m.Name], n)
		for _, r := range m.Provides {
			u.provided[r.Name] = append(u.provided[r.Name], n)
		}
		u.provided[m.Name] = append(u.provided[m.Name], n)
		for _, f := range m.Files {
			u.provided[f] = append(u.provided[f], n)
		}
	}
	u.installed = len(u.all) - 1
	u.stays = make([]int, len(u.all))
	u.ways = make([][]literal, len(u.all))
	for n := 1; n <= u.installed; n++ {
		u.ways[n] = u.stay(n)
	}
	return u
}

func compareMetadata(a, b *rpmfile.Metadata) int {
	return cmp.Or(
		strings.Compare(a.Name, b.Name),
		rpmfile.Compare(a.EVR, b.EVR),
		strings.Compare(a.Arch, b.Arch),
	)
}

func identity(m *rpmfile.Metadata) string { return m.Name + " " + evrText(m.EVR) + " " + m.Arch }

// order compares packages by properties that do not depend on the order in which they got their
// numbers.
func (u *universe) order(a, b int) int {
	p := u.all[a]
	q := u.all[b]
	switch {
	case p.pkg == nil && q.pkg == nil:
		return a - b
	case p.pkg == nil:
		return -1
	case q.pkg == nil:
		return 1
	}
	return cmp.Or(
		compareMetadata(p.Metadata, q.Metadata),
		strings.Compare(p.pkg.Origin, q.pkg.Origin),
		cmp.Compare(a, b),
	)
}

// compareLiterals compares literals as if the numbers followed order.
func (u *universe) compareLiterals(a, b literal) int {
	switch {
	case a < 0 && b < 0:
		return u.order(int(-b), int(-a))
	case a < 0:
		return -1
	case b < 0:
		return 1
	}
	return u.order(int(a), int(b))
}

// number returns the number of a package of the index; that of the installed package if it is the
// same; 0 if the package is not considered.
func (u *universe) number(p *rpm.Package) int {
	if n, ok := u.numbers[p]; ok {
		return n
	}
	n := 0
	if p.Arch != "src" && p.Arch != "nosrc" {
		n = u.same[identity(&p.Metadata)]
		if n != 0 {
			u.all[n].offered = true
		} else {
			n = len(u.all)
			u.all = append(u.all, &solvable{Metadata: &p.Metadata, pkg: p, beside: installsBeside(&p.Metadata)})
		}
	}
	u.numbers[p] = n
	return n
}

// add adds packages of the index to a list of packages; installed ones are left out, because their
// own data has precedence.
func (u *universe) add(to []literal, packages []*rpm.Package) []literal {
	for _, p := range packages {
		if n := u.number(p); n > u.installed {
			to = append(to, literal(n))
		}
	}
	return to
}

// named returns the packages with a name, installed or not.
func (u *universe) named(name string) []literal {
	var out []literal
	for _, n := range u.names[name] {
		out = append(out, literal(n))
	}
	out = u.add(out, u.x.Versions(name))
	slices.Sort(out)
	return slices.Compact(out)
}

// providers returns the packages, installed or not, that meet a relation, sorted.
func (u *universe) providers(r rpmfile.Relation) ([]literal, error) {
	if list, ok := u.cache[r]; ok {
		return list, nil
	}
	var out []literal
	for _, n := range u.provided[r.Name] {
		if u.all[n].Meets(r) {
			out = append(out, literal(n))
		}
	}
	out = u.add(out, u.x.WhatProvides(r))
	if strings.HasPrefix(r.Name, "/") && r.Op == "" {
		var err error
		out, err = u.owners(r.Name, out)
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	u.cache[r] = out
	return out, nil
}

// owners adds the owners of a path to the packages that provide it. Lists of files are large. So if
// an installed package has the file, owners assumes that all versions of it have the file; Resolve
// checks whether the solution depends on that.
func (u *universe) owners(path string, have []literal) ([]literal, error) {
	if u.lists || len(have) == 0 {
		packages, err := u.owned(path)
		return u.add(have, packages), err
	}
	for _, l := range slices.Clone(have) {
		if u.all[l].pkg != nil {
			continue
		}
		for _, other := range u.named(u.all[l].Name) {
			if !slices.Contains(have, other) {
				have = append(have, other)
				u.guessed[int(other)] = true
			}
		}
	}
	return have, nil
}

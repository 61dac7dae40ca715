package apt

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// solver is the state of one resolution. current only grows or gets newer versions, so the
// resolution ends.
type solver struct {
	x       *Index
	arch    string
	current map[string]*item   // by name, for the index's architecture or all
	foreign map[string][]*item // installed for other architectures, by name
	// name or provided name -> items that had it; items not in current are stale
	known       map[string][]*item
	dependents  map[string][]*item // name -> items that depend on it
	conflicting map[string][]*item // name -> items that conflict with it
	items       map[*entry]*item   // parsed entries
	requested   []*item
	pending     []pending // chosen items that are not yet settled, the last first
}

// pending is a chosen item with those of its dependencies that were not looked at yet.
type pending struct {
	item *item
	rest dpkg.Relations
}

func (x *Index) solver(st *dpkg.Status) (*solver, error) {
	s := &solver{
		x: x, arch: x.releases.options.Arch, current: map[string]*item{}, foreign: map[string][]*item{},
		known: map[string][]*item{}, dependents: map[string][]*item{}, conflicting: map[string][]*item{}, items: map[*entry]*item{},
	}
	if st == nil {
		return s, nil
	}
	for _, p := range st.Packages() {
		it, err := newItem(p, nil)
		if err != nil {
			return nil, fmt.Errorf("installed packages: %w", err)
		}
		if it.arch != s.arch && it.arch != "all" {
			for _, n := range it.names() {
				s.foreign[n] = append(s.foreign[n], it)
			}
			continue
		}
		s.insert(it)
	}
	return s, nil
}

// insert adds an item to the system.
func (s *solver) insert(it *item) {
	s.current[it.name] = it
	for _, n := range it.names() {
		s.known[n] = append(s.known[n], it)
	}
	for _, list := range []struct {
		rels dpkg.Relations
		into map[string][]*item
	}{{it.depends, s.dependents}, {it.excludes, s.conflicting}} {
		for _, g := range list.rels {
			for _, r := range g {
				if have := list.into[r.Name]; len(have) == 0 || have[len(have)-1] != it {
					list.into[r.Name] = append(have, it)
				}
			}
		}
	}
}

// onlyCurrent drops the items that have been replaced.
func (s *solver) onlyCurrent(list []*item) []*item {
	var out []*item
	for _, it := range list {
		if s.current[it.name] == it && !slices.Contains(out, it) {
			out = append(out, it)
		}
	}
	return out
}

// item parses an entry once.
func (s *solver) item(e *entry) (*item, error) {
	if it := s.items[e]; it != nil {
		return it, nil
	}
	p, err := dpkg.ParseParagraph([]byte(e.raw))
	if err != nil {
		return nil, distros.BadIndex(
			"package repository %s: package %s %s: %w",
			e.repo.name(),
			e.name,
			e.version,
			err,
		)
	}
	it, err := newItem(p, e)
	if err != nil {
		return nil, fmt.Errorf("package repository %s: %w", e.repo.name(), err)
	}
	s.items[e] = it
	return it, nil
}

// matching returns the items of the system that meet a relation.
func (s *solver) matching(r dpkg.Relation) []*item {
	var out []*item
	switch r.ArchQual {
	case "", "any", "native", s.arch, "all":
		for _, it := range s.onlyCurrent(s.known[r.Name]) {
			if it.meets(r) {
				out = append(out, it)
			}
		}
	}
	for _, it := range s.foreign[r.Name] {
		if it.meets(r) &&
			(it.arch == r.ArchQual || it.multiArch == "foreign" && r.ArchQual == "" || it.multiArch == "allowed" && r.ArchQual == "any") {
			out = append(out, it)
		}
	}
	return out
}

func (s *solver) satisfied(group []dpkg.Relation) bool {
	return slices.ContainsFunc(group, func(r dpkg.Relation) bool { return len(s.matching(r)) > 0 })
}

// satisfy makes sure that the system has one of the alternatives. by needs it (nil: it was
// requested).
func (s *solver) satisfy(by *item, group []dpkg.Relation) error {
	if s.satisfied(group) {
		return nil
	}
	options, err := s.options(group)
	if err != nil {
		return err
	}
	var first error
	for _, it := range options {
		if err := s.conflictReason(it, by); err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		return s.choose(it, by)
	}
	if first != nil {
		return first
	}
	return s.impossible(by, group)
}

// choose puts an item into the system, in place of an older version if there is one.
func (s *solver) choose(it, by *item) error {
	old := s.current[it.name]
	if old != nil {
		it.replaces = string(old.version)
		if it.arch != "all" && it.multiArch == "same" {
			for _, f := range s.foreign[it.name] {
				if f.name == it.name && f.version != it.version {
					return &distros.UnresolvableError{
						Chain: by.chain(), Relation: it.String(),
						Reason: fmt.Sprintf(
							"but %s must stay at the same version as its %s twin, which is installed as %s",
							it.name,
							f.arch,
							f.version,
						),
					}
				}
			}
		}
	}
	it.by = by
	s.insert(it)
	if by == nil {
		s.requested = append(s.requested, it)
	} else {
		s.pending = append(s.pending, pending{it, it.depends})
	}
	if old == nil {
		return nil
	}
	return s.recheckDependents(old, it)
}

// settle chooses what an item needs, and upgrades what it conflicts with. The needs of a chosen item
// come before the next need of the item that it was chosen for, as in apt: of alternatives, one
// that was chosen before counts.
func (s *solver) settle(it *item) error {
	s.pending = append(s.pending, pending{it, it.depends})
	for len(s.pending) > 0 {
		last := &s.pending[len(s.pending)-1]
		it = last.item
		replaced := s.current[it.name] != it
		if !replaced && len(last.rest) > 0 {
			group := last.rest[0]
			last.rest = last.rest[1:]
			err := s.satisfy(it, group)
			if err != nil {
				return err
			}
			continue
		}
		s.pending = s.pending[:len(s.pending)-1]
		if replaced {
			continue
		}
		err := s.upgradeConflicting(it)
		if err != nil {
			return err
		}
	}
	return nil
}

// upgradeConflicting upgrades what an item conflicts with.
func (s *solver) upgradeConflicting(it *item) error {
	for _, c := range s.conflicts(it) {
		if s.current[c.other.name] != c.other {
			continue // upgraded by an earlier turn of this loop
		}
		err := s.upgradeAway(it, c)
		if err != nil {
			return err
		}
	}
	return nil
}

// recheckDependents settles the items that depended on a version that was just replaced.
func (s *solver) recheckDependents(old, it *item) error {
	for _, name := range old.names() {
		for _, r := range s.onlyCurrent(s.dependents[name]) {
			for _, group := range r.depends {
				broken := slices.ContainsFunc(group, old.meets) && !s.satisfied(group)
				if !broken || s.current[r.name] != r {
					continue
				}
				if next, err := s.newer(r); err != nil {
					return err
				} else if next != nil && s.conflictReason(next, it) == nil {
					if err := s.choose(next, it); err != nil {
						return err
					}
					continue
				}
				if err := s.satisfy(r, group); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// newer returns the candidate of an installed package if that is an upgrade, else nil.
func (s *solver) newer(it *item) (*item, error) {
	e := s.x.candidate(it.name)
	if it.entry != nil || e == nil || dpkg.Compare(dpkg.Version(e.version), it.version) <= 0 {
		return nil, nil
	}
	return s.item(e)
}

package apt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// options returns the items that can meet one of the alternatives, the preferred first.
func (s *solver) options(group []dpkg.Relation) ([]*item, error) {
	var out []*item
	for _, r := range group {
		if !slices.Contains([]string{"", "any", "native", "all", s.arch}, r.ArchQual) {
			continue // the index has only this architecture
		}
		for _, list := range []func(dpkg.Relation) ([]*item, error){s.real, s.virtual} {
			more, err := list(r)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// real returns the versions of the package itself: the candidate, then the others, newest first,
// with those of NotAutomatic repositories last.
func (s *solver) real(r dpkg.Relation) ([]*item, error) {
	var first, last []*item
	candidate := s.x.candidate(r.Name)
	all := s.x.named(r.Name)
	for i := range all {
		e := &all[i]
		if !r.Matches(dpkg.Version(e.version)) || !s.open(e) {
			continue
		}
		it, err := s.item(e)
		if err != nil {
			return nil, err
		}
		switch {
		case e == candidate:
			first = append([]*item{it}, first...)
		case e.repo.rel.notAutomatic:
			last = append(last, it)
		default:
			first = append(first, it)
		}
	}
	return append(first, last...), nil
}

// virtual returns the candidates that provide a name: installed ones (for an upgrade) first, then
// by priority, then by name.
func (s *solver) virtual(r dpkg.Relation) ([]*item, error) {
	var out []*item
	for _, i := range s.x.providers[r.Name] {
		e := &s.x.entries[i]
		if e.name == r.Name || e != s.x.candidate(e.name) || !s.open(e) {
			continue
		}
		it, err := s.item(e)
		if err != nil {
			return nil, err
		}
		if it.meets(r) {
			out = append(out, it)
		}
	}
	rank := func(it *item) int {
		p := slices.Index(
			[]string{"required", "important", "standard"},
			it.paragraph.Get("Priority"),
		)
		if p < 0 {
			p = 3
		}
		return 2*p - btoi(s.current[it.name] != nil)*10
	}
	slices.SortStableFunc(out, func(a, b *item) int { return rank(a) - rank(b) })
	return out, nil
}

// open reports whether a version can still be chosen: the system has nothing of this name, or an
// older installed version.
func (s *solver) open(e *entry) bool {
	cur := s.current[e.name]
	return cur == nil || cur.entry == nil && dpkg.Compare(dpkg.Version(e.version), cur.version) > 0
}

// impossible returns the reason why none of the alternatives is possible.
func (s *solver) impossible(by *item, group []dpkg.Relation) error {
	e := &distros.UnresolvableError{
		Relation: dpkg.Relations{group}.String(),
		Chain:    by.chain(),
		Reason:   "which no repository has",
	}
	for _, r := range group {
		e.Versions = append(e.Versions, s.x.unusable[r.Name]...)
		if cur := s.current[r.Name]; cur != nil {
			state := "installed"
			if cur.entry != nil {
				state = "already chosen"
				if cur.by != nil {
					state += " for " + cur.by.name
				}
			}
			e.Versions = append(e.Versions, fmt.Sprintf("%s (%s)", cur, state))
			e.Reason = "which cannot be met together with what is there"
		}
		for _, have := range s.x.named(r.Name) {
			e.Versions = append(
				e.Versions,
				fmt.Sprintf("%s %s (%s)", have.name, have.version, have.origin()),
			)
		}
		for n, i := range s.x.providers[r.Name] {
			if n == 5 {
				break
			}
			p := &s.x.entries[i]
			e.Versions = append(
				e.Versions,
				fmt.Sprintf(
					"%s %s (%s), which provides %s",
					p.name,
					p.version,
					p.origin(),
					provision(p, r.Name),
				),
			)
		}
		if !slices.Contains([]string{"", "any", "native", "all", s.arch}, r.ArchQual) {
			e.Reason = "but only packages for " + s.arch + " are to be had here"
		}
	}
	if len(e.Versions) == 0 && e.Reason == "which no repository has" {
		e.Reason += "; add the component or the repository that has it"
	} else if e.Reason == "which no repository has" {
		e.Reason += " in that version"
	}
	return e
}

func provision(e *entry, name string) string {
	for one := range strings.SplitSeq(e.provides, ",") {
		one = strings.TrimSpace(one)
		if one == name || strings.HasPrefix(one, name+" ") || strings.HasPrefix(one, name+"(") {
			return one
		}
	}
	return name
}

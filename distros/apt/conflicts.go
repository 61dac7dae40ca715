package apt

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// conflict says that an item and another one of the system cannot be together.
type conflict struct {
	other *item
	owner *item // the one of the two that declares it
	rel   dpkg.Relation
}

// conflicts returns the items of the system that an item conflicts with, as it or they declare. A
// package never conflicts with itself, nor with another version or architecture of itself.
func (s *solver) conflicts(it *item) []conflict {
	var out []conflict
	for _, g := range it.excludes {
		for _, r := range g {
			for _, other := range s.matching(r) {
				if other.name != it.name {
					out = append(out, conflict{other, it, r})
				}
			}
		}
	}
	for _, name := range it.names() {
		for _, other := range s.onlyCurrent(s.conflicting[name]) {
			if other.name == it.name {
				continue
			}
			for _, g := range other.excludes {
				for _, r := range g {
					if r.Name == name && it.meets(r) {
						out = append(out, conflict{other, other, r})
					}
				}
			}
		}
	}
	return out
}

// escape returns an upgrade of the other item that ends a conflict; nil if there is none. It does
// not change chosen items.
func (s *solver) escape(it *item, c conflict) (*item, error) {
	if s.current[c.other.name] != c.other {
		return nil, nil // installed for another architecture: not in the index
	}
	next, err := s.newer(c.other)
	if next == nil || err != nil {
		return nil, err
	}
	for _, g := range next.excludes {
		if slices.ContainsFunc(g, it.meets) {
			return nil, nil
		}
	}
	if c.owner == it && next.meets(c.rel) {
		return nil, nil
	}
	return next, nil
}

// conflictReason returns the reason why an item cannot be added to the system; nil if it can,
// possibly with upgrades of others.
func (s *solver) conflictReason(it, by *item) error {
	for _, c := range s.conflicts(it) {
		next, err := s.escape(it, c)
		if err != nil {
			return err
		}
		if next == nil {
			return s.refuse(it, by, c)
		}
	}
	return nil
}

func (s *solver) upgradeAway(it *item, c conflict) error {
	next, err := s.escape(it, c)
	if err != nil {
		return err
	}
	if next == nil {
		return s.refuse(it, it.by, c)
	}
	if err := s.conflictReason(next, it); err != nil {
		return err
	}
	return s.choose(next, it)
}

func (s *solver) refuse(it, by *item, c conflict) error {
	state := "installed"
	if c.other.entry != nil {
		state = "needed too"
	}
	target := it
	if c.owner == it {
		target = c.other
	}
	e := &distros.UnresolvableError{Chain: by.chain(), Relation: it.String(), Reason: fmt.Sprintf(
		"which cannot be with %s (%s): %s conflicts with %s, that is %s",
		c.other,
		state,
		c.owner,
		c.rel,
		target,
	)}
	if c.other.entry == nil {
		for _, have := range s.x.named(c.other.name) {
			e.Versions = append(
				e.Versions,
				fmt.Sprintf("%s %s (%s)", have.name, have.version, have.origin()),
			)
		}
	}
	return e
}

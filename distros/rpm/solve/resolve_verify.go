package solve

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/rpm/repodata"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// verify checks a solution without the solver's clauses: every package has what it requires, and no package
// is together with one that it conflicts with or replaces. Problems that the installed packages had before
// are allowed. The solver ensures this; the check prevents that a mistake in it breaks an image.
func (u *universe) verify(there []bool) error {
	before := make([]bool, len(u.all))
	for n := 1; n <= u.installed; n++ {
		before[n] = true
	}
	for n, p := range u.all {
		if !there[n] {
			continue
		}
		for _, r := range p.Requires {
			ok, err := u.holds(r, there)
			if err != nil {
				return err
			}
			if !ok && p.pkg == nil {
				if ok, err = u.holds(r, before); err != nil {
					return err
				}
				ok = !ok
			}
			if !ok {
				return fmt.Errorf("resolve packages: the solution is wrong: %s lacks %s; report this", p, r)
			}
		}
		for m, q := range u.all {
			if m == n || !there[m] || p.pkg == nil && q.pkg == nil {
				continue
			}
			if why := apart(p, q); why != "" {
				return fmt.Errorf("resolve packages: the solution is wrong: %s %s %s; report this", p, why, q)
			}
		}
	}
	return nil
}

// apart returns the reason why two packages cannot be installed together, according to the first one; "" if
// they can.
func apart(p, q *solvable) string {
	switch {
	case slices.ContainsFunc(p.Conflicts, func(r rpmfile.Relation) bool { return q.Meets(r) }):
		return "conflicts with"
	case supersedes(p.Metadata, q.Metadata):
		return "obsoletes"
	case p.Name == q.Name && !p.beside && !together(p.Arch, q.Arch):
		return "is another version of"
	}
	return ""
}

// holds reports whether packages meet a requirement.
func (u *universe) holds(r rpmfile.Requirement, there []bool) (bool, error) {
	switch r.Kind {
	case "", "with", "without":
		set, err := u.set(r)
		return slices.ContainsFunc(set, func(l literal) bool { return there[l] }), err
	}
	part := make([]bool, 3)
	all, some := true, false
	for i, p := range r.Parts {
		ok, err := u.holds(p, there)
		if err != nil {
			return false, err
		}
		all, some = all && ok, some || ok
		if i < len(part) {
			part[i] = ok
		}
	}
	switch r.Kind {
	case "and":
		return all, nil
	case "or":
		return some, nil
	case "if":
		return part[1] && part[0] || !part[1] && (part[2] || len(r.Parts) < 3), nil
	case "unless":
		return !part[1] && part[0] || part[1] && part[2], nil
	}
	return false, fmt.Errorf("%w: %s: unknown operator %q", repodata.ErrIndex, r, r.Kind)
}

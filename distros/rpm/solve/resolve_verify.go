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
		wrong, err := u.broken(n, there)
		if err == nil && len(wrong) > 0 && p.pkg == nil {
			var old []string
			old, err = u.broken(n, before)
			wrong = slices.DeleteFunc(wrong, func(w string) bool { return slices.Contains(old, w) })
		}
		if err != nil {
			return err
		}
		if len(wrong) > 0 {
			return fmt.Errorf("resolve packages: the solution is wrong: %s %s; report this", p, wrong[0])
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

// broken returns the requirements and rich conflicts of a package that a set of packages does not respect. A
// package does not conflict with itself; apart looks at the other conflicts.
func (u *universe) broken(n int, there []bool) (wrong []string, err error) {
	for _, r := range u.all[n].Requires {
		ok, err := u.holds(r, there)
		if err != nil {
			return nil, err
		}
		if !ok {
			wrong = append(wrong, "lacks "+r.String())
		}
	}
	others := func() []bool { // made for the few packages that have rich conflicts
		o := slices.Clone(there)
		o[n] = false
		return o
	}
	for _, r := range u.all[n].Conflicts {
		if r.Kind == "" {
			continue
		}
		with, err := u.holds(r, there)
		if err != nil {
			return nil, err
		}
		without, err := u.holds(r, others())
		if err != nil {
			return nil, err
		}
		if with && without {
			wrong = append(wrong, "conflicts with "+r.String())
		}
	}
	return wrong, nil
}

// apart returns the reason why two packages cannot be installed together, according to the first one; "" if
// they can.
func apart(p, q *solvable) string {
	switch {
	case slices.ContainsFunc(p.Conflicts, func(r rpmfile.Requirement) bool { return r.Kind == "" && q.Meets(r.Relation) }):
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

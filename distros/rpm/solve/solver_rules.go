package solve

import (
	"slices"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// rules returns the clauses that hold once a package is in the solution. Problems that installed
// packages had before are allowed.
func (u *universe) rules(n int) ([]clause, error) {
	p := u.all[n]
	var out []clause
	for i := range p.Requires {
		list, err := u.requirement(n, p.Requires[i])
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	if c := u.multilib(n); c != nil {
		out = append(out, *c)
	}
	for _, r := range p.Conflicts {
		form, err := u.normal(r, true)
		if err != nil {
			return nil, err
		}
		for _, c := range form {
			// A package never conflicts with something that it provides itself.
			if slices.Equal(c, []literal{-literal(n)}) ||
				p.pkg == nil && !u.metBefore([][]literal{c}) {
				continue
			}
			if c, always := tidy(append(slices.Clone(c), -literal(n))); !always {
				out = append(out, newClause(c, byConflict, n, r.String(), r.Relation.Name))
			}
		}
	}
	return append(out, u.replacements(n)...), nil
}

// requirement returns a requirement of a package as clauses.
func (u *universe) requirement(n int, r rpmfile.Requirement) ([]clause, error) {
	form, err := u.normal(r, false)
	if err != nil {
		return nil, err
	}
	if u.all[n].pkg == nil {
		if !u.metBefore(form) {
			return nil, nil
		}
	}
	var out []clause
	for _, c := range form {
		c, always := tidy(append(slices.Clone(c), -literal(n)))
		if always {
			continue
		}
		out = append(out, newClause(c, byRequire, n, r.String(), r.Relation.Name))
		if few := u.upgradesOnly(c); few != nil {
			left := slices.DeleteFunc(
				slices.Clone(c),
				func(l literal) bool { return slices.Contains(few, l) },
			)
			out = append(
				out,
				clause{literals: few, reason: byPreference, owner: n, text: r.String(), left: left},
			)
		}
	}
	return out, nil
}

// upgradesOnly returns the clause without the packages that are new to the system, if an installed
// package or an upgrade of it can meet the clause; nil if that makes no difference. Such clauses
// are dropped if they cannot be met.
func (u *universe) upgradesOnly(c []literal) []literal {
	var few []literal
	var olds []int
	choice := false
	for _, l := range c {
		if u.givenUp[l] {
			return nil
		}
		switch old := u.replaced(int(l)); {
		case l < 0:
			few = append(few, l)
		case u.all[l].pkg == nil:
			few = append(few, l)
			if u.all[l].offered {
				olds = append(olds, int(l))
			}
		case old == 0:
			choice = true
		case !slices.Contains(u.ways[old], l): // a downgrade
		default:
			few = append(few, l)
			olds = append(olds, old)
		}
	}
	if !choice || len(olds) == 0 {
		return nil
	}
	// If an installed package and all its upgrades meet the clause, it is met in any case.
	for _, old := range olds {
		if slices.ContainsFunc(
			u.ways[old],
			func(l literal) bool { return !slices.Contains(c, l) },
		) {
			return few
		}
	}
	return nil
}

// replaced returns the installed package that another one would replace, also if both may be
// installed; 0 if there is none.
func (u *universe) replaced(n int) int {
	if n < 0 {
		return 0
	}
	if olds := u.related(n); len(olds) > 0 {
		return olds[0]
	}
	return 0
}

// metBefore reports whether the installed packages meet a requirement without any change.
func (u *universe) metBefore(form [][]literal) bool {
	return !slices.ContainsFunc(form, func(c []literal) bool {
		return !slices.ContainsFunc(
			c,
			func(l literal) bool { return (l.pkg() <= u.installed) == (l > 0) },
		)
	})
}

// replacements returns the clauses that exclude two packages of which one replaces the other:
// because it obsoletes it, or because both have the same name and are not installed side by side.
func (u *universe) replacements(n int) []clause {
	p := u.all[n]
	var out []clause
	for _, r := range p.Obsoletes {
		for _, l := range u.named(r.Name) {
			other := u.all[l]
			if (p.pkg != nil || other.pkg != nil) && supersedes(p.Metadata, other.Metadata) {
				out = append(out, newClause([]literal{-literal(n), -l}, byObsolete, n, r.String(), r.Name))
			}
		}
	}
	if p.pkg == nil || p.beside {
		return out // it is installed: the other package has this clause
	}
	for _, l := range u.named(p.Name) {
		if int(l) != n && !together(p.Arch, u.all[l].Arch) {
			out = append(out, newClause([]literal{-literal(n), -l}, bySameName, n, p.Name, p.Name))
		}
	}
	return out
}

// stay returns the packages that can take an installed package's place, itself first: newer
// versions, and packages that obsolete it. Packages are not downgraded, and their architecture does
// not change except from or to noarch.
func (u *universe) stay(n int) []literal {
	p := u.all[n]
	out := []literal{literal(n)}
	if !p.beside {
		for _, l := range u.named(p.Name) {
			q := u.all[l]
			if q.pkg != nil && rpmfile.Compare(q.EVR, p.EVR) >= 0 && !together(p.Arch, q.Arch) {
				out = append(out, l)
			}
		}
	}
	for _, q := range u.x.Obsoleting(p.Name) {
		if supersedes(&q.Metadata, p.Metadata) {
			out = u.add(out, []*rpm.Package{q})
		}
	}
	return out
}

// multilib returns the clause that a package of 32 bits, if there are some of 64 bits with its
// name, is installed only together with the one of its version, as with libsolv (inferior
// architecture, lock-step); nil for others, and for packages that were requested with their
// architecture.
func (u *universe) multilib(n int) *clause {
	p := u.all[n]
	if p.pkg == nil || wordSize(p.Arch) != 32 || wordSize(u.x.Arch()) != 64 ||
		slices.Contains(u.asked, literal(n)) {
		return nil
	}
	text := p.Name + "." + u.x.Arch() + " = " + evrText(p.EVR)
	c := newClause([]literal{-literal(n)}, byRequire, n, text, p.Name)
	inferior := false
	for _, l := range u.named(p.Name) {
		q := u.all[l]
		inferior = inferior || q.pkg != nil && wordSize(q.Arch) == 64
		if wordSize(q.Arch) != 32 && rpmfile.Compare(q.EVR, p.EVR) == 0 {
			c.literals = append(c.literals, l)
		}
	}
	if !inferior {
		return nil
	}
	return &c
}

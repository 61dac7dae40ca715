package solve

import (
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// maxLiterals limits the literals of one requirement. The richest requirements of Fedora have some
// hundred; every package that provides a part counts as one.
const maxLiterals = 1 << 18

// normal returns the clauses of a requirement, or of its negation, in conjunctive normal form: all
// of them must hold. The operators have the meaning of rpm and libsolv: "a if b" is a or not b, "a
// unless b" is a and not b.
func (u *universe) normal(r rpmfile.Requirement, negated bool) ([][]literal, error) {
	switch r.Operator {
	case "", "with", "without":
		set, err := u.set(r)
		if err != nil {
			return nil, err
		}
		if !negated {
			return [][]literal{set}, nil
		}
		var out [][]literal
		for _, l := range set {
			out = append(out, []literal{-l})
		}
		return out, nil
	case "and":
		return u.combine(r.Parts, negated, negated)
	case "or":
		return u.combine(r.Parts, negated, !negated)
	case "if", "unless":
		return u.conditional(r, negated)
	}
	return nil, distros.BadIndex("%s: unknown operator %q", r, r.Operator)
}

// combine returns the form of several requirements. All of them must hold, or one of them if anyOf
// is true.
func (u *universe) combine(parts []rpmfile.Requirement, negated, anyOf bool) ([][]literal, error) {
	var out [][]literal
	for i, p := range parts {
		form, err := u.normal(p, negated)
		if err != nil {
			return nil, err
		}
		switch {
		case !anyOf:
			out = append(out, form...)
		case i == 0:
			out = form
		default:
			out, err = either(out, form)
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// conditional returns "a if b [else c]" as (a or not b) and (b or c). "a unless b [else c]" is the
// same with b negated, except that without c nothing may be installed if b is.
func (u *universe) conditional(r rpmfile.Requirement, negated bool) ([][]literal, error) {
	unless := r.Operator == "unless"
	then, err := u.normal(r.Parts[0], negated)
	if err != nil {
		return nil, err
	}
	is, err := u.normal(r.Parts[1], false)
	if err != nil {
		return nil, err
	}
	not, err := u.normal(r.Parts[1], true)
	if err != nil {
		return nil, err
	}
	if unless {
		is, not = not, is
	}
	first, err := either(then, not)
	if err != nil {
		return nil, err
	}
	var second [][]literal
	switch {
	case len(r.Parts) > 2:
		other, err := u.normal(r.Parts[2], negated)
		if err != nil {
			return nil, err
		}
		second, err = either(other, is)
		if err != nil {
			return nil, err
		}
	case unless != negated: // the missing third part counts as false: "a unless b", and the negation of "a if b"
		second = is
	}
	return append(slices.Clone(first), second...), nil
}

// either returns the form of "one of two forms holds".
func either(a, b [][]literal) ([][]literal, error) {
	var out [][]literal
	total := 0
	for _, x := range a {
		for _, y := range b {
			if total += len(x) + len(y); total > maxLiterals {
				return nil, distros.BadIndex(
					"a rich dependency becomes more than %d alternatives",
					maxLiterals,
				)
			}
			out = append(out, slices.Concat(x, y))
		}
	}
	return out, nil
}

// set returns the packages each of which meets a requirement alone.
func (u *universe) set(r rpmfile.Requirement) ([]literal, error) {
	if r.Operator == "" {
		return u.providers(r.Relation)
	}
	var out []literal
	for i, p := range r.Parts {
		part, err := u.set(p)
		if err != nil {
			return nil, err
		}
		in := func(l literal) bool { return slices.Contains(part, l) }
		switch {
		case i == 0:
			out = slices.Clone(part)
		case r.Operator == "with" || r.Operator == "and":
			out = slices.DeleteFunc(out, func(l literal) bool { return !in(l) })
		case r.Operator == "without":
			out = slices.DeleteFunc(out, in)
		case r.Operator == "or":
			out = append(out, part...)
		default:
			return nil, distros.BadIndex(
				"%s: %q cannot be inside of with and without",
				r,
				r.Operator,
			)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// tidy removes duplicate literals, and returns true if the clause always holds.
func tidy(c []literal) ([]literal, bool) {
	slices.Sort(c)
	c = slices.Compact(c)
	for _, l := range c {
		if l > 0 {
			break
		}
		if _, both := slices.BinarySearch(c, -l); both {
			return c, true
		}
	}
	return c, false
}

package solve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// request returns the clauses for a want.
func (u *universe) request(want string) ([]clause, error) {
	req, err := rpmfile.ParseRequirement(want)
	if err != nil {
		return nil, distros.BadSources("package %q was asked for: %w", want, err)
	}
	if req.Operator != "" {
		form, err := u.normal(req, false)
		if err != nil {
			return nil, fmt.Errorf("package %q was asked for: %w", want, err)
		}
		var out []clause
		for _, c := range form {
			if c, always := tidy(slices.Clone(c)); !always {
				out = append(out, clause{literals: c, reason: byRequest, text: want})
			}
		}
		return out, nil
	}
	options, err := u.wanted(req.Relation)
	if err != nil {
		return nil, err
	}
	if len(options) == 0 {
		return nil, u.missing(nil, want, req.Relation)
	}
	if !slices.ContainsFunc(options, func(l literal) bool { return u.all[l].pkg == nil }) {
		options = u.best(options)
	}
	return []clause{
		{literals: options, reason: byRequest, text: want, name: req.Relation.Name},
	}, nil
}

// wanted returns the packages that a request may mean: those with the name and those that obsolete
// them, otherwise those with the name and the architecture, otherwise those that provide it.
func (u *universe) wanted(r rpmfile.Relation) ([]literal, error) {
	options := slices.DeleteFunc(
		u.named(r.Name),
		func(l literal) bool { return !u.all[l].Meets(r) },
	)
	if name, arch, ok := cutArch(r.Name); len(options) == 0 && ok {
		r := rpmfile.Relation{Name: name, Op: r.Op, EVR: r.EVR}
		options = slices.DeleteFunc(
			u.named(name),
			func(l literal) bool { return u.all[l].Arch != arch || !u.all[l].Meets(r) },
		)
		if len(options) > 0 {
			return options, nil
		}
	}
	if len(options) == 0 {
		return u.providers(r)
	}
	if r.Op == "" {
		newest := u.best(slices.Clone(options))
		over := func(m *rpmfile.Metadata) bool {
			return slices.ContainsFunc(
				newest,
				func(l literal) bool { return supersedes(m, u.all[l].Metadata) },
			)
		}
		for n := 1; n <= u.installed; n++ {
			if over(u.all[n].Metadata) {
				options = append(options, literal(n))
			}
		}
		for _, p := range u.x.Obsoleting(r.Name) {
			if over(&p.Metadata) {
				options = u.add(options, []*rpm.Package{p})
			}
		}
	}
	return options, nil
}

// cutArch splits "name.architecture".
func cutArch(text string) (name, arch string, ok bool) {
	i := strings.LastIndexByte(text, '.')
	if i <= 0 || !rpm.KnownArch(text[i+1:]) {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

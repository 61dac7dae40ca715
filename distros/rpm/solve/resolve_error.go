package solve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// explain converts the solver's proof to a message: the most informative one of the clauses that
// contradict each other, and the chain from a request to it. Other errors are returned unchanged.
func (r *resolution) explain(err error) error {
	var un *unsolvable
	if r == nil || !errors.As(err, &un) {
		return err
	}
	e := explanation{u: r.s.u, parents: map[int]int{}, needs: map[int]*clause{}}
	for _, i := range un.proof {
		e.proof = append(e.proof, &r.s.clauses[i])
	}
	e.walk()
	for _, find := range []func() error{e.unmet, e.excluding, e.versions} {
		if err := find(); err != nil {
			return err
		}
	}
	all := &distros.UnresolvableError{Reason: "which cannot be met together"}
	for _, c := range e.proof {
		switch {
		case c.reason == byRequest && all.Relation == "":
			all.Relation = c.text
		case c.reason == byConflict:
			all.Reason += fmt.Sprintf("; %s conflicts with %s", e.u.all[c.owner], c.text)
		}
	}
	all.Relation = cmp.Or(all.Relation, "all that was asked for")
	return all
}

// explanation walks the clauses of a proof, beginning with the requests.
type explanation struct {
	u       *universe
	proof   []*clause
	order   []int           // packages in the order in which the walk meets them
	parents map[int]int     // the package that needs a package; 0: it was requested
	needs   map[int]*clause // the clause for which it is needed
}

// walk visits the packages of the proof, breadth first, newest first.
func (e *explanation) walk() {
	reach := func(from int, c *clause) {
		list := slices.Clone(c.literals)
		slices.SortFunc(list, func(a, b literal) int { return e.u.order(b.pkg(), a.pkg()) })
		for _, l := range list {
			if _, known := e.parents[int(l)]; l > 0 && !known {
				e.parents[int(l)] = from
				e.needs[int(l)] = c
				e.order = append(e.order, int(l))
			}
		}
	}
	for _, c := range e.proof {
		if c.reason == byRequest {
			reach(0, c)
		}
	}
	follow := func() {
		for n := 0; n < len(e.order); n++ {
			for _, c := range e.proof {
				if c.reason == byRequire && c.owner == e.order[n] {
					reach(c.owner, c)
				}
			}
		}
	}
	follow()
	for _, c := range e.proof {
		if c.reason == byStaying {
			reach(-c.owner, c)
		}
	}
	follow()
}

// chain returns the chain from a request to a package.
func (e *explanation) chain(n int) []string {
	var out []string
	for steps := 0; n > 0 && steps < 100; steps++ {
		out = append(out, e.u.all[n].String())
		n = e.parents[n]
	}
	slices.Reverse(out)
	return out
}

// unmet returns an error for a requirement in the proof that no package meets; nil if there is
// none.
func (e *explanation) unmet() error {
	for _, n := range e.order {
		for _, c := range e.proof {
			if c.reason != byRequire || c.owner != n ||
				slices.ContainsFunc(c.literals, func(l literal) bool { return l > 0 }) {
				continue
			}
			// a part of a rich dependency must not be in the system, but is
			if len(c.literals) > 1 {
				continue
			}
			return e.u.missing(e.chain(n), c.text, rpmfile.Relation{Name: c.name})
		}
	}
	return nil
}

// missing returns the error for a requirement that no package meets, with the packages that come
// close to it.
func (u *universe) missing(chain []string, text string, r rpmfile.Relation) error {
	e := &distros.UnresolvableError{
		Chain:    chain,
		Relation: text,
		Reason:   "which no repository has; add the repository that has it",
	}
	if r.Name == "" {
		return e // it is a rich dependency
	}
	other := false
	seen := map[string]bool{}
	for _, p := range u.x.Providing(r.Name) {
		line := fmt.Sprintf("%s (%s)", p, p.Origin)
		if wordSize(p.Arch) == 32 && wordSize(u.x.Arch()) == 64 {
			line = fmt.Sprintf("%s.%s (%s)", p, p.Arch, p.Origin)
		}
		switch {
		case p.Hidden != "":
			line += ", but " + p.Hidden
		default:
			other = true
			if p.Name != r.Name {
				line += ", which provides " + provision(p, r.Name)
			}
		}
		if !seen[line] && len(e.Versions) < maxVersions {
			seen[line] = true
			e.Versions = append(e.Versions, line)
		}
	}
	switch {
	case other:
		e.Reason = "which no repository has in that version"
	case len(e.Versions) > 0:
		e.Reason = "which is not to be had"
	}
	return e
}

// maxVersions limits the versions that a message lists.
const maxVersions = 10

// provision returns the relation with which a package provides a name, for messages.
func provision(p *rpm.Package, name string) string {
	for _, r := range p.Metadata.Provides {
		if r.Name == name {
			return r.String()
		}
	}
	return name
}

// excluding returns an error for two packages in the proof of which one excludes the other; nil if
// there are none.
func (e *explanation) excluding() error {
	for _, n := range e.order {
		for _, c := range e.proof {
			if len(c.literals) != 2 || c.literals[0] > 0 || c.literals[1] > 0 ||
				!slices.Contains(c.literals, -literal(n)) {
				continue
			}
			verb := "conflicts with"
			switch c.reason {
			case byObsolete:
				verb = "obsoletes"
			case byRequire:
				verb = "requires"
			case byConflict:
			default:
				continue
			}
			other := c.besides(n)
			target := other
			if c.owner == other {
				target = n
			}
			err := &distros.UnresolvableError{Reason: fmt.Sprintf(
				"which cannot be with %s (%s): %s %s %s, that is %s",
				e.u.all[other],
				e.state(other),
				e.u.all[c.owner],
				verb,
				c.text,
				e.u.all[target],
			)}
			e.fill(err, n, e.u.all[n].String())
			return err
		}
	}
	return nil
}

// besides returns the other package of a clause of two.
func (c *clause) besides(n int) int {
	if other := c.literals[0].pkg(); other != n {
		return other
	}
	return c.literals[1].pkg()
}

// state returns the reason why a package is considered.
func (e *explanation) state(n int) string {
	if e.u.all[n].pkg == nil {
		return "installed"
	}
	if chain := e.chain(n); len(chain) > 1 {
		return "needed by " + chain[len(chain)-2]
	}
	return "asked for"
}

// fill adds to the error which package or request needs a package.
func (e *explanation) fill(err *distros.UnresolvableError, n int, relation string) {
	err.Relation = relation
	if parent := e.parents[n]; parent > 0 {
		err.Chain = e.chain(parent)
	}
}

// versions returns an error for two versions of a package that are both needed; nil if there are
// none.
func (e *explanation) versions() error {
	for _, n := range e.order {
		for _, c := range e.proof {
			if c.reason != bySameName || c.owner != n {
				continue
			}
			other := c.besides(n)
			p := e.u.all[n]
			q := e.u.all[other]
			err := &distros.UnresolvableError{
				Reason: fmt.Sprintf("which cannot be met together with %s (%s)", q, e.state(other)),
			}
			switch by := e.keeper(other, n); {
			case q.pkg == nil && rpmfile.Compare(p.EVR, q.EVR) < 0:
				err.Reason = fmt.Sprintf(
					"which needs %s, but the newer %s is installed, and packages are not downgraded; use a newer repository or an older base",
					p,
					q,
				)
			case by != nil:
				err.Reason += fmt.Sprintf(": %s needs %s", e.u.all[by.owner], by.text)
			}
			e.fill(err, n, e.needs[n].text)
			for _, l := range e.u.named(p.Name) {
				if v := e.u.all[l]; v.pkg != nil && len(err.Versions) < maxVersions {
					err.Versions = append(err.Versions, fmt.Sprintf("%s (%s)", v, v.pkg.Origin))
				}
			}
			return err
		}
	}
	return nil
}

// keeper returns a clause that needs one version of a package and not another one.
func (e *explanation) keeper(n, not int) *clause {
	for _, c := range e.proof {
		if c.reason == byRequire && slices.Contains(c.literals, literal(n)) &&
			!slices.Contains(c.literals, literal(not)) {
			return c
		}
	}
	return nil
}

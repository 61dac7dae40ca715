package solve

import (
	"errors"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// explain turns the solver's proof into words: of the clauses that contradict each other the one that says most, and the way
// from a request to it. Other errors stay as they are.
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
	for _, find := range []func() error{e.nobody, e.enemies, e.versions} {
		if err := find(); err != nil {
			return err
		}
	}
	first := &rpm.UnresolvableError{Relation: "all that was asked for", Reason: "which cannot be met together"}
	for _, c := range e.proof {
		if c.reason == byRequest {
			first.Relation = c.text
			break
		}
	}
	return first
}

// explanation walks the clauses of a proof from the requests on.
type explanation struct {
	u       *universe
	proof   []*clause
	order   []int           // packages as they are met
	parents map[int]int     // who needs a package; 0: it was asked for
	needs   map[int]*clause // why
}

// walk finds the packages of the proof, breadth first, newest first.
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
				if c.reason == byRequire && c.Matches == e.order[n] {
					reach(c.Matches, c)
				}
			}
		}
	}
	follow()
	for _, c := range e.proof {
		if c.reason == byStaying {
			reach(-c.Matches, c)
		}
	}
	follow()
}

// chain is the way from a request to a package.
func (e *explanation) chain(n int) []string {
	var out []string
	for steps := 0; n > 0 && steps < 100; steps++ {
		out = append(out, e.u.all[n].String())
		n = e.parents[n]
	}
	slices.Reverse(out)
	return out
}

// nobody finds a requirement that nothing meets.
func (e *explanation) nobody() error {
	for _, n := range e.order {
		for _, c := range e.proof {
			if c.reason != byRequire || c.Matches != n || slices.ContainsFunc(c.literals, func(l literal) bool { return l > 0 }) {
				continue
			}
			if len(c.literals) > 1 { // something of a rich dependency must not be there, but is
				continue
			}
			return e.u.missing(e.chain(n), c.text, rpmfile.Relation{Name: c.name})
		}
	}
	return nil
}

// missing says that nothing meets a requirement, and what comes near.
func (u *universe) missing(chain []string, text string, r rpmfile.Relation) error {
	e := &rpm.UnresolvableError{Chain: chain, Relation: text, Reason: "which no repository has; add the repository that has it"}
	if r.Name == "" {
		return e // a rich dependency
	}
	other := false
	seen := map[string]bool{}
	for _, p := range u.x.Providing(r.Name) {
		line := fmt.Sprintf("%s (%s)", p, p.Origin)
		switch {
		case p.Hidden != "":
			line += ", but " + p.Hidden
		case wordSize(p.Arch) == 32 && wordSize(u.x.Arch()) == 64 && !u.foreign:
			line = fmt.Sprintf("%s.%s (%s), which must be asked for by its architecture", p, p.Arch, p.Origin)
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

// maxVersions bounds what a message lists.
const maxVersions = 10

// provision is what a package provides by a name.
func provision(p *rpm.Package, name string) string {
	for _, r := range p.Metadata.Provides {
		if r.Name == name {
			return r.String()
		}
	}
	return name
}

// enemies finds two packages of which one does not go with the other.
func (e *explanation) enemies() error {
	for _, n := range e.order {
		for _, c := range e.proof {
			if len(c.literals) != 2 || c.literals[0] > 0 || c.literals[1] > 0 || !slices.Contains(c.literals, -literal(n)) {
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
			other := c.literals[0].pkg()
			if other == n {
				other = c.literals[1].pkg()
			}
			target := other
			if c.Matches == other {
				target = n
			}
			err := &rpm.UnresolvableError{Reason: fmt.Sprintf(
				"which cannot be with %s (%s): %s %s %s, that is %s", e.u.all[other], e.state(other), e.u.all[c.Matches], verb, c.text, e.u.all[target])}
			e.fill(err, n, e.u.all[n].String())
			return err
		}
	}
	return nil
}

// state says why a package is in the game.
func (e *explanation) state(n int) string {
	if e.u.all[n].pkg == nil {
		return "installed"
	}
	if chain := e.chain(n); len(chain) > 1 {
		return "needed by " + chain[len(chain)-2]
	}
	return "asked for"
}

// fill says who needs a package.
func (e *explanation) fill(err *rpm.UnresolvableError, n int, relation string) {
	err.Relation = relation
	if parent := e.parents[n]; parent > 0 {
		err.Chain = e.chain(parent)
	}
}

// versions finds two versions of a package that both are needed.
func (e *explanation) versions() error {
	for _, n := range e.order {
		for _, c := range e.proof {
			if c.reason != bySameName || c.Matches != n {
				continue
			}
			other := c.literals[0].pkg()
			if other == n {
				other = c.literals[1].pkg()
			}
			p, q := e.u.all[n], e.u.all[other]
			err := &rpm.UnresolvableError{Reason: fmt.Sprintf("which cannot be met together with %s (%s)", q, e.state(other))}
			switch by := e.keeper(other, n); {
			case q.pkg == nil && rpmfile.Compare(p.EVR, q.EVR) < 0:
				err.Reason = fmt.Sprintf("which needs %s, but the newer %s is installed, and packages are not downgraded; use a newer repository or an older base", p, q)
			case by != nil:
				err.Reason += fmt.Sprintf(": %s needs %s", e.u.all[by.Matches], by.text)
			}
			relation := e.needs[n].text
			e.fill(err, n, relation)
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

// keeper is who needs one version of a package and not another one.
func (e *explanation) keeper(n, not int) *clause {
	for _, c := range e.proof {
		if c.reason == byRequire && slices.Contains(c.literals, literal(n)) && !slices.Contains(c.literals, literal(not)) {
			return c
		}
	}
	return nil
}

package solve

import (
	"cmp"
	"slices"
)

// literal is a statement about one package of the universe by its number: in the solution if
// positive, not in it if negative.
type literal int

func (l literal) index() int {
	if l < 0 {
		return -2*int(l) + 1
	}
	return 2 * int(l)
}

func (l literal) pkg() int { return max(int(l), -int(l)) }

// clause is a list of literals of which at least one must hold. The first two are watched.
type clause struct {
	literals []literal
	reason   reason
	owner    int       // the package that the clause comes from; 0: no package
	text     string    // the relation behind the clause, for messages
	name     string    // name in the relation of text; "" if it has several
	from     []int     // clauses that a learnt one follows from,
	roots    []literal // together with the negations of these, which hold at the root
	left     []literal // packages that a preference excludes
}

func newClause(literals []literal, why reason, owner int, text, name string) clause {
	return clause{literals: literals, reason: why, owner: owner, text: text, name: name}
}

// reason is the origin of a clause.
type reason int

const (
	byLearning reason = iota
	byRequest         // a want
	byStaying         // an installed package stays, or is upgraded
	byRequire
	byConflict
	byObsolete
	bySameName
	byPreference // may be dropped
)

// solver searches for a set of packages that meets all clauses. It works like libsolv, the solver
// of dnf and zypper: it is a CDCL SAT solver whose free decisions follow a policy instead of
// statistics. So the results are the same. Unlike in libsolv, the needs and conflicts of a package
// become clauses only when the package is part of the solution, so that neither the whole
// repository nor its lists of files need to be read. The first conflict with such a clause has the
// same effect as if the clause had existed before.
type solver struct {
	u       *universe
	clauses []clause
	watches [][]int // by literal.index: clauses that watch it
	// by package: 0 undecided, n in the solution since level n, -n excluded since level n
	level []int
	trail []literal
	// by position in trail: the clause that forces it, or -1 for a free decision
	why               []int
	limits            []int // by level-1: length of trail before the level
	head              int   // position in trail up to which everything is propagated
	expanded          []bool
	choices           []int             // clauses of requirements that leave a choice, sorted by
	ordered           map[int][]literal // their literals in order
	branches          []branch
	learnt, minimized int
}

// branch stores the alternatives of a free decision.
type branch struct {
	level  int // before the decision
	others []literal
}

// rootLevel is the level of everything that follows without a free decision.
const rootLevel = 1

// grow extends the slices for packages that were added to the universe.
func (s *solver) grow() {
	n := len(s.u.all)
	for len(s.level) < n {
		s.level = append(s.level, 0)
		s.expanded = append(s.expanded, false)
		s.watches = append(s.watches, nil, nil)
	}
}

func (s *solver) isTrue(l literal) bool {
	v := s.level[l.pkg()]
	return v > 0 == (l > 0) && v != 0
}

func (s *solver) isFalse(l literal) bool { return s.isTrue(-l) }

func (s *solver) undecided(l literal) bool { return s.level[l.pkg()] == 0 }

// depth returns the level at which a literal was decided.
func (s *solver) depth(l literal) int {
	v := s.level[l.pkg()]
	return max(v, -v)
}

func (s *solver) current() int { return rootLevel + len(s.limits) }

// set makes a literal true at the current level.
func (s *solver) set(l literal, why int) {
	if l > 0 {
		s.level[l] = s.current()
	} else {
		s.level[-l] = -s.current()
	}
	s.trail = append(s.trail, l)
	s.why = append(s.why, why)
}

// add adds a clause and sets its last literal that can still hold, if there is only one. It returns
// the clause if none can hold, otherwise -1. The clause must follow at the current level, not
// below: it contains the negation of something decided there, or the current level is the root.
func (s *solver) add(c clause) int {
	i := len(s.clauses)
	s.grow()
	slices.SortStableFunc(
		c.literals,
		func(a, b literal) int { return cmp.Compare(s.rank(b), s.rank(a)) },
	)
	s.clauses = append(s.clauses, c)
	if len(c.literals) > 1 {
		for _, l := range c.literals[:2] {
			s.watches[l.index()] = append(s.watches[l.index()], i)
		}
	}
	switch {
	case len(c.literals) == 0 || s.isFalse(c.literals[0]):
		return i
	case s.undecided(c.literals[0]) && (len(c.literals) == 1 || s.isFalse(c.literals[1])):
		s.set(c.literals[0], i)
	}
	return -1
}

// rank orders literals by how suitable they are to be watched.
func (s *solver) rank(l literal) int {
	switch {
	case s.isTrue(l):
		return 2 << 30
	case s.undecided(l):
		return 1 << 30
	}
	return s.depth(l)
}

// propagate draws all conclusions from the decisions so far. It returns the clause that cannot be
// met, or -1.
func (s *solver) propagate() (int, error) {
	for s.head < len(s.trail) {
		l := s.trail[s.head]
		s.head++
		if c := s.visit(l); c >= 0 {
			return c, nil
		}
		if l < 0 || s.expanded[l] {
			continue
		}
		s.expanded[l] = true
		rules, err := s.u.rules(int(l))
		if err != nil {
			return -1, err
		}
		conflict := -1
		for _, r := range rules {
			// A clause of one literal is not watched: it must be the one to learn from.
			if c := s.include(r); c >= 0 &&
				(conflict < 0 || len(s.clauses[c].literals) < len(s.clauses[conflict].literals)) {
				conflict = c
			}
		}
		if conflict >= 0 {
			return conflict, nil
		}
	}
	return -1, nil
}

// include adds a clause of a package, and stores it among the choices if it leaves one.
func (s *solver) include(c clause) int {
	positive := 0
	for _, l := range c.literals {
		if l > 0 {
			positive++
		}
	}
	if positive > 1 && (c.reason == byRequire || c.reason == byPreference) {
		s.grow()
		n := len(s.clauses)
		s.ordered[n] = slices.SortedFunc(slices.Values(c.literals), s.u.compareLiterals)
		at, _ := slices.BinarySearchFunc(s.choices, n, s.compareChoices)
		s.choices = slices.Insert(s.choices, at, n)
	}
	return s.add(c)
}

// visit examines the clauses that watch the negation of a literal that became true. It returns the
// clause that cannot be met, or -1.
func (s *solver) visit(l literal) int {
	n := (-l).index()
	list := s.watches[n]
	kept := list[:0]
	for at, i := range list {
		c := s.clauses[i].literals
		if c[0] == -l {
			c[0], c[1] = c[1], c[0]
		}
		if s.isTrue(c[0]) {
			kept = append(kept, i)
			continue
		}
		moved := false
		for k := 2; k < len(c); k++ {
			if !s.isFalse(c[k]) {
				c[1], c[k] = c[k], c[1]
				s.watches[c[1].index()] = append(s.watches[c[1].index()], i)
				moved = true
				break
			}
		}
		if moved {
			continue
		}
		kept = append(kept, i)
		if s.isFalse(c[0]) {
			s.watches[n] = append(kept, list[at+1:]...)
			return i
		}
		s.set(c[0], i)
	}
	s.watches[n] = kept
	return -1
}

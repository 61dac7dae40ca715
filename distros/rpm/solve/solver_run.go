package solve

import (
	"context"
	"fmt"
	"slices"
)

// maxLearnt ends a search that finds no solution. Real repositories need fewer than a hundred
// learnt clauses.
const maxLearnt = 20000

// maxMinimized limits the attempts to make a solution smaller.
const maxMinimized = 1000

// unsolvable is the error that holds the clauses which contradict each other.
type unsolvable struct{ proof []int }

func (*unsolvable) Error() string { return "unsolvable" }

// run decides until everything is met: first the requests, then that installed packages stay, then
// the requirements of all these. At last it tries to remove packages that were chosen before a
// better choice was known.
func (s *solver) run(ctx context.Context, requests []int) error {
	s.grow()
	if err := s.settle(); err != nil {
		return err
	}
	var round round
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("resolve packages: %w", err)
		}
		options := s.nextRequest(requests)
		if options == nil {
			options = s.nextInstalled()
		}
		if options != nil {
			round = newRound(s)
		} else {
			if round.level == 0 {
				round = newRound(s)
			}
			options = s.nextRequirement(&round)
		}
		switch {
		case options != nil:
			if len(options) > 1 {
				s.branches = append(s.branches, branch{level: s.current(), others: options[1:]})
			}
			s.decide(options[0])
		case s.minimize():
			round.level = 0
		default:
			return nil
		}
		if err := s.settle(); err != nil {
			return err
		}
		if s.current() < round.level {
			round.level = 0
		}
	}
}

func (s *solver) decide(l literal) {
	s.limits = append(s.limits, len(s.trail))
	s.set(l, -1)
}

// settle propagates, and learns from conflicts until there are none.
func (s *solver) settle() error {
	for {
		conflict, err := s.propagate()
		if err != nil {
			return err
		}
		if conflict < 0 {
			return nil
		}
		if s.current() == rootLevel {
			return &unsolvable{proof: s.proof(conflict)}
		}
		if s.learnt++; s.learnt > maxLearnt {
			return fmt.Errorf(
				"resolve packages: gave up after %d dead ends; ask for exact versions",
				maxLearnt,
			)
		}
		c, back := s.analyze(conflict)
		s.revert(back)
		s.add(c)
	}
}

// nextRequest returns the packages that would meet a request which is not met yet, best first; nil
// if all are met.
func (s *solver) nextRequest(requests []int) []literal {
	for _, i := range requests {
		options := s.open(i)
		if len(options) == 0 {
			continue
		}
		var there []literal
		for _, l := range options {
			if s.u.all[l].pkg == nil {
				there = append(there, l)
			}
		}
		if len(there) > 0 {
			options = there
		}
		return s.u.choose(options)
	}
	return nil
}

// nextInstalled returns an installed package that is undecided: it stays. If it cannot stay and its
// replacements are undecided, it returns those. It returns nil if nothing is left.
func (s *solver) nextInstalled() []literal {
	for p := 1; p <= s.u.installed; p++ {
		if s.undecided(literal(p)) {
			return []literal{literal(p)}
		}
		if s.level[p] < 0 {
			if options := s.open(s.u.stays[p]); len(options) > 0 {
				return s.u.choose(options)
			}
		}
	}
	return nil
}

// round visits all requirements that leave a choice until nothing is left to decide: first it
// decides those for which the policy leaves one option only, then all.
type round struct {
	level int // at its start; 0: it has not started
	last  int // clause that was decided last; -1: none
	put   int // the first clause that was postponed; -1: none
	free  bool
}

func newRound(s *solver) round { return round{level: s.current(), last: -1, put: -1} }

// nextRequirement returns the packages that would meet a requirement of a package in the solution,
// best first; nil if all are met.
func (s *solver) nextRequirement(r *round) []literal {
	start := 0
	if r.last >= 0 {
		start = slices.Index(s.choices, r.last) + 1
	}
	for {
		for n := range s.choices {
			i := s.choices[(start+n)%len(s.choices)]
			options := s.open(i)
			if len(options) == 0 {
				continue
			}
			if !r.free && len(s.u.best(options)) > 1 {
				if r.put < 0 {
					r.put = i
				}
				continue
			}
			r.last = i
			return s.u.choose(options)
		}
		if r.free || r.put < 0 {
			return nil
		}
		r.free = true
		start = slices.Index(s.choices, r.put)
	}
}

// compareChoices is the order in which requirements are visited. It is that of libsolv: those of
// the last package first.
func (s *solver) compareChoices(i, j int) int {
	return slices.CompareFunc(s.ordered[i], s.ordered[j], s.u.compareLiterals)
}

// open returns the undecided packages that would meet a clause; nil if it is met, or not relevant
// yet because one of the packages that it depends on is not in the solution.
func (s *solver) open(i int) []literal {
	var out []literal
	for _, l := range s.clauses[i].literals {
		switch {
		case l < 0 && s.level[-l] <= 0, l > 0 && s.level[l] > 0:
			return nil
		case l > 0 && s.level[l] == 0:
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b literal) int { return s.u.order(int(a), int(b)) })
	return out
}

// minimize searches for a decision of which an alternative is now in the solution for another
// reason. It decides for that alternative instead, for the earliest such decision, and returns
// false if there is none.
func (s *solver) minimize() bool {
	if s.minimized++; s.minimized > maxMinimized {
		return false
	}
	for i := range s.branches {
		b := &s.branches[i]
		for k, l := range b.others {
			if l != 0 && s.level[l] > b.level {
				level := b.level
				others := slices.Clone(b.others)
				others[k] = 0 // so that it is not tried again
				s.revert(level)
				s.branches = append(s.branches, branch{level: level, others: others})
				s.decide(l)
				return true
			}
		}
	}
	return false
}

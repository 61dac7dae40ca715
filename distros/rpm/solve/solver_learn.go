package solve

import "slices"

// revert undoes all decisions back to a level.
func (s *solver) revert(level int) {
	if s.current() <= level {
		return
	}
	start := s.limits[level-rootLevel]
	for _, l := range s.trail[start:] {
		s.level[l.pkg()] = 0
	}
	s.trail = s.trail[:start]
	s.why = s.why[:start]
	s.limits = s.limits[:level-rootLevel]
	s.head = min(s.head, start)
	for n := len(s.branches); n > 0 && s.branches[n-1].level >= level; n-- {
		s.branches = s.branches[:n-1]
	}
}

// analyze finds out why a clause cannot be met. It returns the clause to learn, of which all
// literals except the first are false at the returned level.
func (s *solver) analyze(conflict int) (clause, int) {
	learnt := clause{from: []int{conflict}}
	seen := make(map[int]bool)
	open := 0
	at := len(s.trail)
	look := func(c []literal, but literal) {
		for _, l := range c {
			if l == but || seen[l.pkg()] {
				continue
			}
			seen[l.pkg()] = true
			switch s.depth(l) {
			case s.current():
				open++
			default: // those of the root as well: they show the origin of a contradiction
				learnt.literals = append(learnt.literals, l)
			}
		}
	}
	look(s.clauses[conflict].literals, 0)
	for {
		at--
		for !seen[s.trail[at].pkg()] {
			at--
		}
		open--
		if open == 0 {
			break
		}
		i := s.why[at]
		learnt.from = append(learnt.from, i)
		look(s.clauses[i].literals, s.trail[at])
	}
	literals := []literal{-s.trail[at]}
	back := rootLevel
	for _, l := range learnt.literals {
		if d := s.depth(l); d > rootLevel {
			literals = append(literals, l)
			back = max(back, d)
		} else {
			learnt.roots = append(learnt.roots, l)
		}
	}
	learnt.literals = literals
	return learnt, back
}

// proof returns the clauses that contradict each other, in order: those that led to a conflict at
// the root. It replaces learnt clauses by those that they follow from.
func (s *solver) proof(conflict int) []int {
	positions := map[literal]int{}
	for at, l := range s.trail {
		positions[l] = at
	}
	seen := map[int]bool{}
	var out, list []int
	push := func(i int) {
		if !seen[i] {
			seen[i] = true
			list = append(list, i)
		}
	}
	known := map[literal]bool{}
	explain := func(literals []literal) { // adds the clauses because of which these do not hold
		for _, l := range literals {
			at, ok := positions[-l]
			if !ok || known[l] || s.why[at] < 0 {
				continue
			}
			known[l] = true
			push(s.why[at])
		}
	}
	explained := map[int]bool{conflict: true}
	push(conflict)
	for len(list) > 0 {
		i := list[0]
		list = list[1:]
		c := &s.clauses[i]
		if c.reason != byLearning {
			out = append(out, i)
		}
		before := len(list)
		if explained[i] {
			explain(c.literals)
		}
		explain(c.roots)
		for _, j := range list[before:] {
			explained[j] = true
		}
		for _, j := range c.from {
			push(j)
		}
	}
	slices.Sort(out)
	return out
}

package gpus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// group is all GPUs of a generation that are alike.
type group struct {
	GPU             // one that stands for all: with the newest first branch of them
	Variable string // of the rule, read by later rules: "kepler_r367"
	Members  []GPU  // none: the GPUs that are not in the list
}

// groups returns the GPUs of a list with one key each, and the group of those that are not in it,
// in the order of their rules. A later rule overrides the labels of an earlier one: on a node with
// several kinds of GPUs the oldest generation counts. GPUs without a driver come first: they do not
// count beside others.
func groups(all []GPU, key func(GPU) string) []group {
	byKey := map[string]*group{"": {GPU: Unknown(0)}}
	for _, g := range all {
		of := byKey[key(g)]
		if of == nil {
			of = &group{GPU: g}
			byKey[key(g)] = of
		}
		of.Members = append(of.Members, g)
		if matrix.Major(g.FirstBranch) > matrix.Major(of.FirstBranch) {
			of.GPU = g
		}
	}
	var sorted []group
	for _, g := range byKey {
		g.Variable = g.name(all)
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b group) int {
		return cmp.Or(b.rank()-a.rank(), cmp.Compare(a.Variable, b.Variable))
	})
	return sorted
}

// oldest is the oldest branch that a matrix can have: NVIDIA's lists begin with it, and no older
// one compiles on current kernels.
const oldest = 390

// facts are what the labels say of a GPU. They do not change when drivers come, so that no selector
// loses its nodes.
func (g GPU) facts() string {
	if g.Generation == PreFermi {
		return g.Generation // whatever their branch: no driver of a matrix is as old
	}
	return strings.Join(append([]string{g.Generation, g.LastBranch}, g.Flavours...), " ")
}

// Last is the label about the last branch that drives a GPU: "R580", "none" if that is older than
// those of a matrix, "" if current branches drive it.
func (g GPU) Last() string {
	last := matrix.Major(g.LastBranch)
	if last > 0 && last < oldest {
		return ModulesNone
	}
	return g.LastBranch
}

// Modules is the label about the modules that drive a GPU: any, open, proprietary or none.
func (g GPU) Modules() string {
	if g.Last() == ModulesNone {
		return ModulesNone
	}
	if len(g.Flavours) == 1 {
		return g.Flavours[0]
	}
	return ModulesAny
}

// Summed is GPUs of a generation for which a matrix has the same: one of them stands for all.
type Summed struct {
	Answer
	Count int
}

// Summary returns what a matrix has for each generation, the newest first; GPUs that
// differ from most of their generation, and those that need another driver for NVLink switches,
// have lines of their own.
func Summary(m *matrix.Matrix, advisor releases.Advisor) []Summed {
	var lines []Summed
	for _, g := range groups(All(), func(g GPU) string {
		answer := For(m, g, advisor)
		return g.facts() + " " + answer.Branch + " " + answer.Driver
	}) {
		if len(g.Members) > 0 {
			lines = append(
				lines,
				Summed{Answer: For(m, example(g.Members), advisor), Count: len(g.Members)},
			)
		}
	}
	slices.SortStableFunc(lines, func(a, b Summed) int {
		return cmp.Or(
			age(b.Generation)-age(a.Generation),
			b.Count-a.Count,
			strings.Compare(a.ID, b.ID),
		)
	})
	return lines
}

// example returns the first of some GPUs in NVIDIA's lists, or else the first that has a name.
func example(some []GPU) GPU {
	score := func(g GPU) int {
		switch {
		case g.Lists != "":
			return 2
		case g.Name != g.Chip && !strings.HasPrefix(g.Name, "Reserved"):
			return 1
		}
		return 0
	}
	return slices.MaxFunc(some, func(a, b GPU) int { return score(a) - score(b) })
}

// name returns a name for the rule of the group and its variable: the generation, and what is
// unusual in it.
func (g group) name(all []GPU) string {
	name := strings.ReplaceAll(strings.ToLower(g.Generation), "-", "_")
	count := map[string]int{}
	most := 0
	usual := GPU{}
	for _, other := range all {
		key := other.LastBranch + strings.Join(other.Flavours, "")
		if other.Generation != g.Generation || g.Generation == PreFermi {
			continue
		}
		if count[key]++; count[key] > most {
			most = count[key]
			usual = other
		}
	}
	switch {
	case most == 0:
	case g.LastBranch != usual.LastBranch:
		name += "_" + strings.ToLower(g.LastBranch)
	case len(g.Flavours) < len(usual.Flavours):
		name += "_" + g.Flavours[0]
	}
	return name
}

// rank is higher for what comes first.
func (g group) rank() int {
	if g.Driven() {
		return age(g.Generation)
	}
	return age(g.Generation) + 1<<8
}

// age is higher for newer generations, and highest for what is in none.
func age(generation string) int {
	i := slices.Index(Generations(), generation)
	if i < 0 {
		return len(Generations())
	}
	return i
}

// conflicts returns the pairs of groups that have drivers, but none in common.
func conflicts(all []group) (pairs [][2]group) {
	driven := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return !g.Driven() })
	for i, a := range driven {
		for _, b := range driven[i+1:] {
			if !a.shares(b.GPU) {
				pairs = append(pairs, [2]group{a, b})
			}
		}
	}
	return pairs
}

// shares reports whether a branch drives two GPUs with modules of one flavour.
func (g GPU) shares(other GPU) bool {
	first := newestOf(g.FirstBranch, other.FirstBranch)
	firstOpen := newestOf(first, g.OpenFrom, other.OpenFrom, fmt.Sprintf("R%d", matrix.FirstOpen))
	for _, flavour := range g.Flavours {
		drives := func(branch string) bool {
			return branch != "" && g.Check(branch, flavour) == nil &&
				other.Check(branch, flavour) == nil
		}
		if slices.ContainsFunc([]string{g.LastBranch, other.LastBranch, first, firstOpen}, drives) {
			return true
		}
	}
	return false
}

// newestOf returns the newest of branches.
func newestOf(branches ...string) string {
	return slices.MaxFunc(
		branches,
		func(a, b string) int { return matrix.Major(a) - matrix.Major(b) },
	)
}

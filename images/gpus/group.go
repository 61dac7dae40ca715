package gpus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/matrix"
)

// group is all GPUs of a generation for which a matrix has the same.
type group struct {
	GPU             // one that stands for all: with the newest first branch of them
	Variable string // of the rule, read by the rule about conflicts: "kepler_r367"
	Members  []GPU  // none: the GPUs that are not in the list
	Branch   string // the labels
	Modules  string
}

// groups returns the groups in the order of their rules. A later rule overrides the labels of an earlier one,
// so on a node with several kinds of GPUs the label is what fits all: the lowest branch, and at the same
// branch the one flavour that is needed. Groups without a driver come first: they do not count beside GPUs
// that have one.
func groups(m *matrix.Matrix, all []GPU) []group {
	byKey := map[string]*group{"": {GPU: Unknown(0)}}
	for _, g := range all {
		newest, flavours, _ := Newest(m, g)
		key := strings.Join(append([]string{g.Generation, g.LastBranch, newest.Branch}, flavours...), " ")
		if g.Generation == PreFermi {
			key = g.Generation // whatever their branch: no driver of a matrix is as old
		}
		of := byKey[key]
		if of == nil {
			of = &group{GPU: g}
			byKey[key] = of
		}
		of.Members = append(of.Members, g)
		if matrix.Major(g.FirstBranch) > matrix.Major(of.FirstBranch) {
			of.GPU = g
		}
	}
	var sorted []group
	for _, g := range byKey {
		g.Variable = g.name()
		g.Branch, g.Modules = Labels(m, g.GPU)
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b group) int {
		return cmp.Or(slices.Compare(b.rank(), a.rank()), cmp.Compare(a.Variable, b.Variable))
	})
	for i := range sorted { // with few drivers, GPUs that are usually alike are not
		if n := slices.IndexFunc(sorted, func(g group) bool { return g.Variable == sorted[i].Variable }); n < i {
			sorted[i].Variable += strings.ToLower("_" + sorted[i].Branch + "_" + sorted[i].Modules)
		}
	}
	return sorted
}

// Labels returns the labels of a node with a GPU: the newest branch of a matrix that drives it, and the modules for it.
func Labels(m *matrix.Matrix, g GPU) (branch, flavours string) {
	newest, _, ok := Newest(m, g)
	if !ok {
		return ModulesNone, ModulesNone
	}
	return newest.Branch, modules(newest, g)
}

// Summed is GPUs of a generation for which a matrix has the same: one of them stands for all.
type Summed struct {
	Answer
	Count int
}

// Summary returns what a matrix has for each generation on a day, the newest first; GPUs that differ from most
// of their generation have lines of their own.
func Summary(m *matrix.Matrix, day time.Time) []Summed {
	var lines []Summed
	for _, g := range groups(m, All()) {
		if len(g.Members) > 0 {
			lines = append(lines, Summed{Answer: For(m, g.example(), day), Count: len(g.Members)})
		}
	}
	slices.SortStableFunc(lines, func(a, b Summed) int {
		return cmp.Or(age(b.Generation)-age(a.Generation), b.Count-a.Count)
	})
	return lines
}

// example returns the first GPU of the group in NVIDIA's lists, or else the first that has a name.
func (g group) example() GPU {
	for _, fits := range []func(GPU) bool{
		func(m GPU) bool { return m.Lists != "" }, func(m GPU) bool { return m.Name != m.Chip && !strings.HasPrefix(m.Name, "Reserved") },
	} {
		if i := slices.IndexFunc(g.Members, fits); i >= 0 {
			return g.Members[i]
		}
	}
	return g.Members[0]
}

// name returns a name for the rule of the group and its variable: the generation, and what is unusual in it.
func (g group) name() string {
	name := strings.ReplaceAll(strings.ToLower(g.Generation), "-", "_")
	count, most, usual := map[string]int{}, 0, GPU{}
	for _, other := range All() {
		key := other.LastBranch + strings.Join(other.Flavours, "")
		if other.Generation != g.Generation || g.Generation == PreFermi {
			continue
		}
		if count[key]++; count[key] > most {
			most, usual = count[key], other
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
func (g group) rank() []int {
	first := map[bool]int{true: 1}
	return []int{first[g.Branch == ModulesNone], matrix.Major(g.Branch), first[g.Modules == ModulesAny], age(g.Generation)}
}

// age is higher for newer generations, and highest for what is in none.
func age(generation string) int {
	if i := slices.Index(Generations(), generation); i >= 0 {
		return i
	}
	return len(Generations())
}

// conflicts returns the pairs of groups that have drivers, but none in common.
func conflicts(m *matrix.Matrix, all []group) (pairs [][2]group) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if _, _, ok := Newest(m, a.GPU, b.GPU); !ok && a.Branch != ModulesNone && b.Branch != ModulesNone {
				pairs = append(pairs, [2]group{a, b})
			}
		}
	}
	return pairs
}

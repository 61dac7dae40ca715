package fleet

import (
	"maps"
	"slices"

	"github.com/driver-container/driver-container/images/matrix"
)

// machines are some nodes of a fleet, by name.
type machines []*machine

// group is the nodes that have a key.
type group struct {
	key   string
	nodes machines
}

// by groups nodes by each of their keys, in the order in which the keys appear.
func (all machines) by(keys func(*machine) []string) (groups []group) {
	position := map[string]int{}
	for _, m := range all {
		for _, key := range keys(m) {
			at, ok := position[key]
			if !ok {
				at = len(groups)
				position[key] = at
				groups = append(groups, group{key: key})
			}
			groups[at].nodes = append(groups[at].nodes, m)
		}
	}
	return groups
}

// where returns the nodes for which is holds.
func (all machines) where(is func(*machine) bool) machines {
	return slices.DeleteFunc(slices.Clone(all), func(m *machine) bool { return !is(m) })
}

// each returns what the nodes have, sorted and each once, without "".
func (all machines) each(has func(*machine) string) []string {
	words := map[string]bool{}
	for _, m := range all {
		words[has(m)] = true
	}
	delete(words, "")
	return slices.Sorted(maps.Keys(words))
}

func (all machines) names() []string {
	return all.each(func(m *machine) string { return m.Name })
}

// running returns the versions of drivers that labels of the nodes name, rising.
func (all machines) running() []string {
	versions := all.each(func(m *machine) string { return m.Driver() })
	slices.SortFunc(versions, matrix.CompareVersions)
	return versions
}

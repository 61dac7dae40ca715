package gpulist

import "strings"

// generation is a family of chips, by the first letters of their names.
type generation struct{ letters, name string }

// generations are the families since Fermi, oldest first.
var generations = []generation{
	{"GF", "Fermi"}, {"GK", "Kepler"}, {"GM", "Maxwell"}, {"GP", "Pascal"}, {"GV", "Volta"},
	{"TU", "Turing"}, {"GA", "Ampere"}, {"AD", "Ada"}, {"GH", "Hopper"}, {"GB", "Blackwell"},
}

// Generations returns the names of all generations, oldest first.
func Generations() []string {
	names := []string{PreFermi}
	for _, g := range generations {
		names = append(names, g.name)
	}
	return names
}

// GenerationOf returns the generation of a chip: "Turing" for TU104.
func GenerationOf(chip string) string {
	for _, g := range generations {
		if strings.HasPrefix(chip, g.letters) {
			return g.name
		}
	}
	return PreFermi
}

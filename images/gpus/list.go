// Package gpus is the list of NVIDIA's GPUs: which branches of the driver drive each of them, and
// with which kernel modules. The list is data (gpus.tsv, which ci/tables/upstream makes of the
// lists in NVIDIA's drivers and of pci.ids). The package also says which driver of a matrix is for
// a GPU, and writes that down as a NodeFeatureRule, with which Node Feature Discovery labels nodes
// before they have a driver.
//
// It knows nothing of systems and kernels: the newest driver for a GPU may not compile on a node's
// kernel. The list can lack a GPU that a driver supports, as NVIDIA's own lists do (the T4 in those
// of 525 to 555): a GPU that is not in it is unknown, and is taken for a new one.
package gpus

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/images/matrix"
)

// Vendor is NVIDIA's number among the vendors of PCI devices.
const Vendor = 0x10de

// PreFermi is the generation of all GPUs before Fermi. No driver with current kernels drives them.
const PreFermi = "pre-Fermi"

// UnknownGeneration is the generation of a GPU that is not in the list.
const UnknownGeneration = "unknown"

// GPU is one PCI device number with all boards that have it: all rows of a number agree in what is
// here.
type GPU struct {
	Device uint16 `json:"-"`
	// as in NVIDIA's newest list that has it, or else in pci.ids
	Name       string   `json:"name"`
	OtherNames []string `json:"names,omitempty"` // of other boards and in older lists
	Chip       string   `json:"chip"`            // "TU104"
	Generation string   `json:"generation"`      // "Turing"
	// FirstBranch is the branch of the oldest list that has a GPU of the chip: "R418". The lists
	// begin with R390; a chip that is in none is as new as the newest of its generation.
	FirstBranch string `json:"firstBranch,omitempty"`
	// LastBranch is the last branch that drives the GPU: "R470"; "" if the current branches do.
	LastBranch string `json:"lastBranch,omitempty"`
	// of the modules that drive it: proprietary, open, in this order
	Flavours []string `json:"flavours"`
	// OpenFrom is the first branch whose open modules drive it, where that is not FirstBranch:
	// "R565".
	OpenFrom string `json:"openFrom,omitempty"`
	// Lists are the branches of NVIDIA's lists that say that they drive it, oldest and newest:
	// "390-470". It is empty for a GPU that only pci.ids names; its chip then says the rest.
	Lists string `json:"lists,omitempty"`
}

// ID returns the number as in lspci: "10de:1eb8".
func (g GPU) ID() string { return fmt.Sprintf("%04x:%04x", Vendor, g.Device) }

// Names returns all names, the usual one first.
func (g GPU) Names() []string { return append([]string{g.Name}, g.OtherNames...) }

//go:embed gpus.tsv
var table string

// All returns the whole list by device number. The caller must not change it.
var All = sync.OnceValue(func() (all []GPU) {
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, parse(strings.Split(strings.TrimSuffix(line, "\n"), "\t")))
		}
	}
	return all
})

// parse reads a line of the table, whose form TestTable checks: number, chip, first and last
// branch, flavours, lists and names.
func parse(f []string) GPU {
	device, _ := strconv.ParseUint(f[0], 16, 16)
	branch := func(number string) string {
		if number == "-" || number == "" {
			return ""
		}
		return "R" + number
	}
	names := strings.Split(f[6], "; ")
	g := GPU{
		Device:      uint16(device),
		Chip:        f[1],
		Generation:  GenerationOf(f[1]),
		FirstBranch: branch(f[2]),
		LastBranch:  branch(f[3]),
		Lists:       strings.TrimPrefix(f[5], "-"),
		Name:        names[0],
		OtherNames:  names[1:],
	}
	if strings.HasPrefix(f[4], "p") { // p, o, po, or po565: from a branch on
		g.Flavours = append(g.Flavours, matrix.Proprietary)
	}
	_, from, open := strings.Cut(f[4], "o")
	if open {
		g.Flavours = append(g.Flavours, matrix.Open)
		g.OpenFrom = branch(from)
	}
	return g
}

// Lookup returns a GPU by its device number. ok is false for a GPU that is not in the list;
// [Unknown] then says what is assumed.
func Lookup(device uint16) (g GPU, ok bool) {
	order := func(g GPU, d uint16) int { return int(g.Device) - int(d) }
	i, ok := slices.BinarySearchFunc(All(), device, order)
	if ok {
		g = All()[i]
	}
	return g, ok
}

// Unknown returns what is assumed of a GPU that is not in the list: it is newer than the list, so
// the newest driver drives it, with the open modules.
func Unknown(device uint16) GPU {
	return GPU{
		Device:     device,
		Name:       "unknown GPU",
		Generation: UnknownGeneration,
		Flavours:   []string{matrix.Open},
	}
}

// generations are the families of chips since Fermi, oldest first, by the first letters of their
// names.
var generations = []struct{ letters, name string }{
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

// Check returns an error if a release of the driver ("535.261.03") with modules of a flavour does
// not drive the GPU. With the flavour "" any flavour will do. A driver whose version has no number
// passes.
func (g GPU) Check(driver, flavour string) error {
	why := g.unfit(matrix.Major(driver), flavour)
	if why == "" {
		return nil
	}
	name := g.Name
	if g.Device != 0 && name != g.ID() {
		name += " (" + g.ID() + ")"
	}
	return fmt.Errorf("driver %s does not drive %s: %s", driver, name, why)
}

// unfit says why a branch does not drive the GPU, "" if it does; 0 is a branch without a number.
func (g GPU) unfit(branch int, flavour string) string {
	last := matrix.Major(g.LastBranch)
	known := branch > 0
	switch {
	case known && last > 0 && branch > last:
		return g.LastBranch + " is the last branch that drives it"
	case known && branch < matrix.Major(g.FirstBranch):
		return g.Chip + " (" + g.Generation + ") is in no list before that of " + g.FirstBranch
	case flavour != "" && !slices.Contains(g.Flavours, flavour):
		return "it needs the " + strings.Join(g.Flavours, " or ") + " modules"
	case known && flavour == matrix.Open && branch < matrix.Major(g.OpenFrom):
		return "the open modules drive it from " + g.OpenFrom + " on"
	case known && branch < matrix.FirstOpen && !slices.Contains(g.Flavours, matrix.Proprietary):
		return fmt.Sprintf("it needs the open modules, which came with R%d", matrix.FirstOpen)
	}
	return ""
}

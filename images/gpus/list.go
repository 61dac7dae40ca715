// Package gpus is the list of NVIDIA's GPUs: which branches of the driver drive each of them, and with which
// kernel modules. The list is data (gpus.tsv, which ci/gputable makes of the lists in NVIDIA's drivers and of
// pci.ids). The package also says which driver of a matrix is for a GPU, and writes that down as a
// NodeFeatureRule, with which Node Feature Discovery labels nodes before they have a driver.
//
// It knows nothing of systems and kernels: the newest driver for a GPU may not compile on a node's kernel. The
// list can lack a GPU that a driver supports, as NVIDIA's own lists do (the T4 in those of 525 to 555): a GPU
// that is not in it is unknown, and is taken for a new one.
package gpus

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Vendor is NVIDIA's number among the vendors of PCI devices.
const Vendor = 0x10de

// The flavours of the kernel modules.
const (
	Open        = "open"
	Proprietary = "proprietary"
)

// PreFermi is the generation of all GPUs before Fermi. No driver with current kernels drives them.
const PreFermi = "pre-Fermi"

// UnknownGeneration is the generation of a GPU that is not in the list.
const UnknownGeneration = "unknown"

// GPU is one PCI device number with all boards that have it: all rows of a number agree in what is here.
type GPU struct {
	Device     uint16   `json:"-"`
	Name       string   `json:"name"`            // as in NVIDIA's newest list that has it, or else in pci.ids
	OtherNames []string `json:"names,omitempty"` // of other boards and in older lists
	Chip       string   `json:"chip"`            // "TU104"
	Generation string   `json:"generation"`      // "Turing"
	// FirstBranch is the branch of the oldest list that has a GPU of the chip: "R418". The lists begin
	// with R390; a chip that is in none is as new as the newest of its generation.
	FirstBranch string `json:"firstBranch,omitempty"`
	// LastBranch is the last branch that drives the GPU: "R470"; "" if the current branches do.
	LastBranch string   `json:"lastBranch,omitempty"`
	Flavours   []string `json:"flavours"` // of the modules that drive it: Proprietary, Open, in this order
	// OpenFrom is the first branch whose open modules drive it, where that is not FirstBranch: "R565".
	OpenFrom string `json:"openFrom,omitempty"`
	// Lists are the branches of NVIDIA's lists that say that they drive it, oldest and newest: "390-470". It is
	// empty for a GPU that only pci.ids names; its chip then says the rest.
	Lists string `json:"lists,omitempty"`
}

// ID returns the number as in lspci: "10de:1eb8".
func (g GPU) ID() string { return fmt.Sprintf("%04x:%04x", Vendor, g.Device) }

// Names returns all names, the usual one first.
func (g GPU) Names() []string { return append([]string{g.Name}, g.OtherNames...) }

//go:embed gpus.tsv
var table string

// columns of gpus.tsv, between tabs.
const columns = 7

var list = sync.OnceValue(func() []GPU {
	all, err := parse(table)
	if err != nil {
		return nil // TestTable parses the same text
	}
	return all
})

// All returns the whole list by device number. The caller must not change it.
func All() []GPU { return list() }

// parse reads the table: lines of number, chip, first and last branch, flavours, lists and names. A line that
// begins with # is a comment.
func parse(text string) ([]GPU, error) {
	var all []GPU
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		g, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("gpus.tsv:%d: %w", n+1, err)
		}
		if len(all) > 0 && all[len(all)-1].Device >= g.Device {
			return nil, fmt.Errorf("gpus.tsv:%d: %04x is there twice or out of order", n+1, g.Device)
		}
		all = append(all, g)
	}
	return all, nil
}

func parseLine(line string) (GPU, error) {
	f := strings.Split(line, "\t")
	if len(f) != columns {
		return GPU{}, fmt.Errorf("%d columns, not %d", len(f), columns)
	}
	device, err := strconv.ParseUint(f[0], 16, 16)
	if err != nil {
		return GPU{}, fmt.Errorf("read a device number: %w", err)
	}
	g := GPU{
		Device: uint16(device), Chip: f[1], Generation: GenerationOf(f[1]),
		FirstBranch: branch(f[2]), LastBranch: branch(f[3]), Lists: strings.TrimPrefix(f[5], "-"),
	}
	switch from, later := strings.CutPrefix(f[4], "po"); {
	case f[4] == "o":
		g.Flavours = []string{Open}
	case f[4] == "p":
		g.Flavours = []string{Proprietary}
	case later && from == "":
		g.Flavours = []string{Proprietary, Open}
	case later && BranchNumber(from) > 0:
		g.Flavours, g.OpenFrom = []string{Proprietary, Open}, "R"+from
	default:
		return GPU{}, fmt.Errorf("flavours %q: want o, p, po or po565", f[4])
	}
	names := strings.Split(f[6], "; ")
	g.Name, g.OtherNames = names[0], names[1:]
	if g.Name == "" {
		return GPU{}, fmt.Errorf("%04x has no name", device)
	}
	return g, nil
}

// branch returns the name of a branch for its number in the table, "" for "-".
func branch(number string) string {
	if number == "-" {
		return ""
	}
	return "R" + number
}

// Lookup returns a GPU by its device number. ok is false for a GPU that is not in the list; [Unknown] then
// says what is assumed.
func Lookup(device uint16) (g GPU, ok bool) {
	all := All()
	i, ok := slices.BinarySearchFunc(all, device, func(g GPU, d uint16) int { return int(g.Device) - int(d) })
	if !ok {
		return GPU{}, false
	}
	return all[i], true
}

// Unknown returns what is assumed of a GPU that is not in the list: it is newer than the list, so the newest
// driver drives it, with the open modules.
func Unknown(device uint16) GPU {
	return GPU{Device: device, Name: "unknown GPU", Generation: UnknownGeneration, Flavours: []string{Open}}
}

// generations are the families of chips since Fermi, oldest first, by the first letters of their names.
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

package gpulist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// The modules that a GPU takes, as the label says it.
const (
	ModulesAny  = "any"
	ModulesNone = "none"
)

// Answer says what a matrix has for a GPU.
type Answer struct {
	ID    string `json:"id"`    // "10de:1eb8"
	Known bool   `json:"known"` // false: the GPU is not in the list, and is taken for a new one
	GPU
	Branch  string `json:"branch,omitempty"` // the newest branch of the matrix that drives it; none if it is missing
	Driver  string `json:"driver,omitempty"` // the newest release of that branch
	Modules string `json:"modules"`          // the flavours of Driver that drive it: any, open, proprietary or none
	Why     string `json:"why"`
}

// For returns what a matrix has for a GPU.
func For(m *matrix.Matrix, g GPU) Answer {
	a := Answer{ID: g.ID(), GPU: g, Modules: ModulesNone}
	_, a.Known = Lookup(g.Device)
	newest, _, ok := Newest(m, g)
	if !ok {
		a.Why = "no driver of the matrix: " + reason(g)
		return a
	}
	a.Branch, a.Driver = newest.Branch, newest.Version
	a.Modules = modules(newest, g)
	a.Why = why(a)
	return a
}

// Newest returns the newest driver of a matrix that drives all GPUs with modules of one flavour, and those
// flavours. It leaves out drivers for vGPU guests. ok is false if there is none.
func Newest(m *matrix.Matrix, gpus ...GPU) (d matrix.Driver, flavours []string, ok bool) {
	for _, other := range m.Drivers {
		if other.VGPU != "" || ok && releases.Compare(other.Version, d.Version) < 0 {
			continue
		}
		if all := common(other, gpus); len(all) > 0 {
			d, flavours, ok = other, all, true
		}
	}
	return d, flavours, ok
}

// common returns the flavours of a driver that drive all GPUs.
func common(d matrix.Driver, gpus []GPU) []string {
	return slices.DeleteFunc(slices.Clone(d.Flavours), func(flavour string) bool {
		return slices.ContainsFunc(gpus, func(g GPU) bool { return g.Check(d.Version, flavour) != nil })
	})
}

// modules returns the word for the flavours of a driver that drive a GPU. A GPU that is not in the list is
// new, and new GPUs need the open modules.
func modules(d matrix.Driver, g GPU) string {
	all := common(d, []GPU{g})
	switch {
	case len(all) == 1:
		return all[0]
	case g.Generation == UnknownGeneration:
		return Open
	default:
		return ModulesAny
	}
}

func why(a Answer) string {
	var parts []string
	switch {
	case !a.Known:
		return "not in the list, so it is taken for a new GPU: the newest branch, with the open modules that new GPUs need"
	case a.LastBranch != "":
		parts = append(parts, a.LastBranch+" is the last branch for it")
	default:
		parts = append(parts, "current branches drive it")
	}
	switch {
	case !slices.Contains(a.Flavours, Proprietary):
		parts = append(parts, "it needs the open modules")
	case !slices.Contains(a.Flavours, Open):
		parts = append(parts, "the open modules do not drive it")
	}
	if a.Lists == "" {
		parts = append(parts, fmt.Sprintf("by its chip %s: no list of NVIDIA's drivers here names it", a.Chip))
	}
	return strings.Join(parts, "; ")
}

// reason says why no driver drives a GPU.
func reason(g GPU) string {
	if g.LastBranch != "" {
		return g.LastBranch + " is the last branch for it"
	}
	return g.FirstBranch + " is the first branch for it"
}

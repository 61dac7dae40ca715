package gpus

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
	// the newest branch of the matrix that drives it; none if it is missing
	Branch string `json:"branch,omitempty"`
	// the one that is recommended of those that drive it; of an unknown GPU the newest
	Driver string `json:"driver,omitempty"`
	// of Driver's branch: "production until 2027-03", "over since 2024-07"
	Support string `json:"support,omitempty"`
	// the newest that drives it of a branch with long-term support that has not ended
	LongTerm string `json:"longTerm,omitempty"`
	// known CVEs of Driver; nil if none is known
	Exposure *releases.Exposure `json:"vulnerabilities,omitempty"`
	// the flavours of Driver that drive it: any, open, proprietary or none
	Modules string `json:"modules"`
	Why     string `json:"why"`
}

// For returns what a matrix has for a GPU. For one that NVLink switches can join it is a
// driver whose components for them are known, if there is one.
func For(m *matrix.Matrix, g GPU, advisor releases.Advisor) Answer {
	a := Answer{ID: g.ID(), GPU: g, Modules: ModulesNone}
	_, a.Known = Lookup(g.Device)
	newest, _, ok := Newest(m, g)
	if !ok {
		a.Why = "no driver of the matrix: " + reason(g)
		return a
	}
	var some, whole []matrix.Driver
	for _, d := range m.Drivers {
		if len(common(d, []GPU{g})) == 0 || !a.Known && d.Version != newest.Version {
			continue
		}
		some = append(some, d)
		if len(d.Components.Lacks("", g.Components())) == 0 {
			whole = append(whole, d)
		}
	}
	if len(whole) > 0 {
		some = whole
	}
	advice := advisor.Recommend(some)
	a.Branch = newest.Branch
	a.Driver = advice.Driver
	a.Support = advice.Support
	a.LongTerm = advice.LongTerm
	a.Exposure = advisor.Vulnerabilities().Exposure(a.Driver)
	for _, d := range some {
		if d.Version == a.Driver {
			a.Modules = modules(d, g)
		}
	}
	a.Why = why(a)
	if g.Components() != nil {
		a.Why += "; " + switches
	}
	if len(whole) == 0 {
		a.Why += ", and no driver of the matrix that drives it has that"
	}
	return a
}

// Newest returns the newest driver of a matrix that drives all GPUs with modules of one flavour,
// and those flavours. It leaves out drivers for vGPU guests. ok is false if there is none.
func Newest(m *matrix.Matrix, gpus ...GPU) (d matrix.Driver, flavours []string, ok bool) {
	for _, other := range m.Drivers {
		if other.VGPU != "" || ok && matrix.CompareVersions(other.Version, d.Version) < 0 {
			continue
		}
		if all := common(other, gpus); len(all) > 0 {
			d = other
			flavours = all
			ok = true
		}
	}
	return d, flavours, ok
}

// common returns the flavours of a driver that drive all GPUs.
func common(d matrix.Driver, gpus []GPU) []string {
	return slices.DeleteFunc(slices.Clone(d.Flavours), func(flavour string) bool {
		return slices.ContainsFunc(
			gpus,
			func(g GPU) bool { return g.Check(d.Version, flavour) != nil },
		)
	})
}

// modules returns the word for the flavours of a driver that drive a GPU.
func modules(d matrix.Driver, g GPU) string {
	if all := common(d, []GPU{g}); len(all) == 1 {
		return all[0]
	}
	return ModulesAny
}

// switches says what a driver needs for GPUs that NVLink switches join.
const switches = "with NVLink switches it needs the fabric manager"

// TakenForNew says what is assumed of a GPU that is not in the list.
const TakenForNew = "not in the list, so it is taken for a new GPU: the newest driver, with the open modules that new GPUs need"

func why(a Answer) string {
	var parts []string
	switch {
	case !a.Known:
		return TakenForNew
	case a.LastBranch != "":
		parts = append(parts, a.LastBranch+" is the last branch for it")
	default:
		parts = append(parts, "current branches drive it")
	}
	switch {
	case !slices.Contains(a.Flavours, matrix.Proprietary):
		parts = append(parts, "it needs the open modules")
	case !slices.Contains(a.Flavours, matrix.Open):
		parts = append(parts, "the open modules do not drive it")
	case a.OpenFrom != "":
		parts = append(parts, "the open modules drive it from "+a.OpenFrom+" on")
	}
	if a.Lists == "" {
		parts = append(
			parts,
			fmt.Sprintf("by its chip %s: no list of NVIDIA's drivers here names it", a.Chip),
		)
	}
	return strings.Join(parts, "; ")
}

// reason says why no driver drives a GPU.
func reason(g GPU) string {
	if g.LastBranch != "" {
		return g.LastBranch + " is the last branch for it"
	}
	if g.FirstBranch == "" {
		return TakenForNew
	}
	return g.FirstBranch + " is the first branch for it"
}

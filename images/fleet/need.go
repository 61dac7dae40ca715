package fleet

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
)

// need is what the GPUs of a machine ask of a driver.
type need struct {
	gpus    []gpus.GPU
	text    []string // how they are called
	unknown string   // one that is in no list; ""
	// components of a driver that the machine does not work without, if NVLink switches join its
	// GPUs
	components []string
}

// needOf finds out what GPUs need, and what the switches between them. A vGPU sees none.
func needOf(g GPUs) need {
	n := gpusNeed(g)
	if g.VGPU {
		return n
	}
	if g.Switches {
		n.components = []string{matrix.FabricManager}
	}
	for _, gpu := range n.gpus {
		n.components = append(n.components, gpu.Components()...)
	}
	slices.Sort(n.components)
	n.components = slices.Compact(n.components)
	return n
}

// gpusNeed finds out what GPUs need: by their numbers, or else by their name, or else by what rules
// of node feature discovery put on the node. A name of several GPUs needs a driver that drives them
// all.
func gpusNeed(g GPUs) need {
	var n need
	for _, device := range g.Devices {
		known, ok := gpus.Lookup(device)
		if !ok {
			known = gpus.Unknown(device)
			known.Name = known.ID()
			n.unknown = known.ID()
		}
		n.gpus = append(n.gpus, known)
		n.text = append(n.text, known.Name)
	}
	switch {
	case len(g.Devices) > 0:
		return n
	case g.Product != "":
		n.text = []string{g.Product}
		n.gpus = gpus.Named(g.Product)
		if len(n.gpus) == 0 {
			n.gpus = []gpus.GPU{gpus.Unknown(0)}
			n.unknown = g.Product
		}
	case g.Branch != "" || g.Modules != "":
		n.gpus = []gpus.GPU{labelled(g)}
		n.text = append(n.text, strings.TrimSpace("labels: "+g.Branch+" "+g.Modules))
	}
	return n
}

// labelled is the GPU that labels describe. Any text may be in them: a branch that is not the last
// one of any GPU says nothing.
func labelled(g GPUs) gpus.GPU {
	last := ""
	isLast := func(known gpus.GPU) bool { return known.LastBranch == g.Branch }
	if slices.ContainsFunc(gpus.All(), isLast) {
		last = g.Branch
	}
	flavours := []string{matrix.Proprietary, matrix.Open}
	if slices.Contains(flavours, g.Modules) {
		flavours = []string{g.Modules}
	}
	return gpus.GPU{Name: "its GPU", Generation: "it", LastBranch: last, Flavours: flavours}
}

// check returns an error if a driver with modules of a flavour does not drive all GPUs.
func (n need) check(driver, flavour string) error {
	for _, g := range n.gpus {
		if err := g.Check(driver, flavour); err != nil {
			return err
		}
	}
	return nil
}

// contradicts reports whether the machine has GPUs that need different drivers or flavours.
func (n need) contradicts() bool {
	return slices.ContainsFunc(n.gpus, func(g gpus.GPU) bool {
		return g.LastBranch != n.gpus[0].LastBranch || g.FirstBranch != n.gpus[0].FirstBranch ||
			!slices.Equal(g.Flavours, n.gpus[0].Flavours)
	})
}

// typical is a GPU that asks of a driver what all of these ask together, as far as a class says it:
// the last branch that drives them, and the flavours of modules. Which branch was the first one, it
// does not say.
func (n need) typical() gpus.GPU {
	g := gpus.GPU{Flavours: []string{matrix.Proprietary, matrix.Open}}
	for _, other := range n.gpus {
		if other.LastBranch != "" &&
			(g.LastBranch == "" || matrix.Major(other.LastBranch) < matrix.Major(g.LastBranch)) {
			g.LastBranch = other.LastBranch
		}
		g.Flavours = slices.DeleteFunc(
			g.Flavours,
			func(f string) bool { return !slices.Contains(other.Flavours, f) },
		)
	}
	return g
}

// switchesClass is the word of a class for GPUs that NVLink switches can join.
const switchesClass = "hgx"

// class returns what the GPUs ask of a driver, as a word for names: "" if any current driver will
// do. It follows from the machine alone, so that a name stays when drivers change.
func (n need) class() string {
	g := n.typical()
	var words []string
	switch {
	case n.unknown != "":
		words = append(words, "new")
	case g.LastBranch != "":
		words = append(words, strings.ToLower(g.LastBranch))
	case len(g.Flavours) == 1:
		words = append(words, g.Flavours[0][:4]) // open, prop
	}
	if len(n.components) > 0 {
		words = append(words, switchesClass)
	}
	return strings.Join(words, "-")
}

// String returns the names of the GPUs.
func (n need) String() string {
	if len(n.text) == 0 {
		return "unknown"
	}
	return strings.Join(n.text, ", ")
}

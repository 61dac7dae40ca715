// Package fleet decides which driver goes on which machine: nodes and a matrix go in, a [Plan] comes out. It
// says which images the machines need, which pools of the chart choose these machines, and which machines get
// nothing, with the reason.
//
// It reads no node (package nodes), asks no registry (package survey) and builds nothing. A plan is the same
// for the same nodes in any order.
package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// Schema is the version of the shape of a plan.
const Schema = 1

// Options restrict what may be chosen.
type Options struct {
	Drivers     []string       // versions of the matrix; empty: all
	Flavours    []string       // of the modules; empty: all
	Precompiled bool           // images with the modules of one kernel, and a pool for each kernel
	CUDA        *releases.CUDA // that workloads need; nil: any
	At          time.Time      // decides which branches are still supported
}

// Plan is what a fleet needs.
type Plan struct {
	Schema int     `json:"schema"`
	Nodes  int     `json:"nodes"`  // how many were read
	Images []Image `json:"images"` // needed, by tag
	Pools  []Pool  `json:"pools"`  // of the chart, by name; none for hosts without a cluster
	// Without are the machines that get no driver, by reason.
	Without []Without `json:"without"`
	// NFD says that the chart's own rule finds the nodes with a GPU: the labels of node feature discovery.
	NFD bool `json:"nodeFeatureDiscovery"`
	// Warnings name nodes whose driver is a guess.
	Warnings []string `json:"warnings,omitempty"`
	// Taints of nodes with a driver that the chart does not tolerate by itself.
	Taints []Taint `json:"taints,omitempty"`
	Hints  []Hint  `json:"hints,omitempty"`
}

// Image is an image that machines need.
type Image struct {
	Tag      string   `json:"tag"`
	System   string   `json:"os"`
	Driver   string   `json:"driver"`
	CUDA     string   `json:"cuda,omitempty"`     // the newest release that the driver runs natively
	RunsCUDA string   `json:"runsCUDA,omitempty"` // how it runs the release that was asked for
	Archs    []string `json:"archs"`
	GPUs     []string `json:"gpus"`               // of the nodes
	Kernels  []string `json:"kernels"`            // of the nodes
	Kernel   string   `json:"kernel,omitempty"`   // for which modules are compiled ahead of time
	Flavours []string `json:"flavours,omitempty"` // of these modules, if they are not the driver's usual one
	Nodes    []string `json:"nodes"`              // that need it
	Asked    bool     `json:"asked"`              // whether the registry has it
	Missing  []string `json:"missing,omitempty"`  // architectures that the registry lacks

	targets []matrix.Target // one for each architecture
}

// Pool is a pool of the chart: nodes that get the same image and the same settings. As YAML it is what the
// chart's values have.
type Pool struct {
	Name        string `json:"name" yaml:"name"`
	System      string `json:"os" yaml:"os"`
	Driver      string `json:"driver" yaml:"driver"`
	Precompiled bool   `json:"-" yaml:"precompiled,omitempty"`
	Kernel      string `json:"kernel,omitempty" yaml:"kernel,omitempty"` // of precompiled images
	// KernelModuleType is set if only one flavour works for the nodes' GPUs and kernels; else the node decides.
	KernelModuleType string            `json:"kernelModuleType,omitempty" yaml:"kernelModuleType,omitempty"`
	NodeSelector     map[string]string `json:"nodeSelector" yaml:"nodeSelector"`
	Tag              string            `json:"tag" yaml:"-"`
	Running          []string          `json:"running,omitempty" yaml:"-"` // versions of drivers that labels of the nodes name
	Nodes            []string          `json:"nodes" yaml:"-"`
}

// Without are machines that get no driver for one reason.
type Without struct {
	Code   string   `json:"code"` // one of the codes below
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
	// Running are versions of drivers that labels of the nodes name.
	Running []string `json:"running,omitempty"`
}

// The codes of reasons.
const (
	NoGPU          = "no-gpu"          // it has none
	GPUUnknown     = "gpu-unknown"     // nothing has looked whether it has one
	BadReport      = "bad-report"      // what it says of itself cannot be true, or is incomplete
	HostDriver     = "host-driver"     // its system has a driver
	OwnWay         = "own-way"         // its system brings drivers its own way
	Jetson         = "jetson"          // its system is NVIDIA's for Jetson, which has the driver
	ForMachines    = "for-machines"    // its GPUs are for virtual machines
	VGPUGuest      = "vgpu-guest"      // it is a guest with a vGPU, and no driver for guests may be chosen
	SystemUnknown  = "system-unknown"  // no image of the matrix is for its system
	NoDriver       = "no-driver"       // the matrix has none for its system and architecture
	GPUUnsupported = "gpu-unsupported" // no driver for its system drives the GPU
	GPUsDiffer     = "gpus-differ"     // no driver serves all of its GPUs
	KernelDrivers  = "kernel"          // no driver that fits its GPU compiles on its kernel
	NotLabelled    = "not-labelled"    // labels that a selector needs are missing, or out of date
	Alike          = "not-told-apart"  // no label tells it from a node that needs something else
)

// answer is what one machine gets: an image, or a reason.
type answer struct {
	code, reason string // why it gets nothing; "" if it gets a driver
	target       matrix.Target
	kernel       string   // of a precompiled image
	flavours     []string // that work for its GPUs and kernel, the preferred one first
	restricted   bool     // flavours are fewer than the driver's
	unknown      string   // a GPU of it that is in no list
	class        string   // what its GPUs ask of a driver, for the name of its pool: "", "r470", "open"
	gpus         string   // how they are called
}

// setting is what the pool of a machine has to say, so that machines with the same setting can share one.
func (a *answer) setting() string {
	return a.target.Driver.Version + " " + a.target.System.ID + " " + a.kernel + " " + a.moduleType()
}

// moduleType returns the flavour that the pool must name; "" if the node may decide.
func (a *answer) moduleType() string {
	if a.restricted {
		return a.flavours[0]
	}
	return ""
}

// Decide makes the plan of a fleet.
func Decide(m *matrix.Matrix, all []Node, o Options) (*Plan, error) {
	c, err := newChooser(m, o)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	answers := make([]answer, len(all))
	for i := range all {
		answers[i] = c.answer(&all[i])
		if code, driver := answers[i].code, all[i].Driver(); driver != "" && (code == NoGPU || code == GPUUnknown) {
			answers[i] = answer{code: NotLabelled, reason: fmt.Sprintf("its labels name driver %s, and none says that it has a GPU: "+
				"is node feature discovery at work there?", driver)}
		}
	}
	p := &Plan{Schema: Schema, Nodes: len(all), Images: []Image{}, Pools: []Pool{}, Without: []Without{}}
	if slices.ContainsFunc(all, func(n Node) bool { return n.Labels != nil }) {
		p.choosePools(all, answers, o.Precompiled)
	}
	p.addImages(all, answers, o.CUDA)
	p.addWithout(all, answers)
	p.addHints(c, all, answers)
	p.addTaints(all, answers)
	p.warn(all, answers)
	return p, nil
}

// warn names the machines that get a driver for a GPU that is in no list.
func (p *Plan) warn(all []Node, answers []answer) {
	names := map[string][]string{}
	for i, a := range answers {
		if a.code == "" && a.unknown != "" {
			names[a.unknown] = append(names[a.unknown], all[i].Name)
		}
	}
	for _, gpu := range slices.Sorted(maps.Keys(names)) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s of %s is %s", gpu, strings.Join(names[gpu], ", "), gpus.TakenForNew))
	}
}

// grouped returns the element of a list with a key, which is made at its first use.
func grouped[T any](list *[]T, position map[string]int, key string, first func() T) *T {
	at, ok := position[key]
	if !ok {
		at = len(*list)
		position[key] = at
		*list = append(*list, first())
	}
	return &(*list)[at]
}

// addWithout adds the machines that get nothing, by code and reason.
func (p *Plan) addWithout(all []Node, answers []answer) {
	position := map[string]int{}
	for i, a := range answers {
		if a.code == "" {
			continue
		}
		w := grouped(&p.Without, position, a.code+"\x00"+a.reason, func() Without { return Without{Code: a.code, Reason: a.reason} })
		w.Nodes = append(w.Nodes, all[i].Name)
		if driver := all[i].Driver(); driver != "" && !slices.Contains(w.Running, driver) {
			w.Running = append(w.Running, driver)
		}
	}
	slices.SortFunc(p.Without, func(a, b Without) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
}

// Package fleet decides which driver goes on which machine: nodes and a matrix go in, a [Recommendation]
// comes out. It says which images the machines need, which pools of the chart choose these
// machines, and which machines get nothing, with the reason.
//
// It asks no registry (package status does) and builds nothing. A recommendation is the same for the same
// nodes in any order.
package fleet

import (
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// Schema is the version of the shape of a recommendation.
const Schema = 1

// Options restrict what may be chosen.
type Options struct {
	Drivers     []string // versions of the matrix; empty: all
	Flavours    []string // of the modules; empty: all
	Precompiled bool     // images with the modules of one kernel, and a pool for each kernel
	// images of modules beside the driver's, for the kernels of the nodes
	Beside  bool
	Managed bool             // also nodes whose platform says that it brings the driver
	CUDA    *releases.CUDA   // that workloads need; nil: any
	Advisor releases.Advisor // decides which drivers are better
}

// Recommendation is what a fleet needs.
type Recommendation struct {
	Schema int           `json:"schema"`
	Nodes  int           `json:"nodes"`  // how many were read
	Images []NeededImage `json:"images"` // needed, by tag
	Pools  []Pool        `json:"pools"`  // of the chart, by name; none for hosts without a cluster
	// Without are the machines that get no driver, by reason.
	Without []Without `json:"without"`
	// NFD says that the chart's own rule finds the nodes with a GPU: the labels of node feature
	// discovery.
	NFD bool `json:"nodeFeatureDiscovery"`
	// Managed says that nodes get a driver whose platform says that it brings one.
	Managed bool `json:"managedDrivers,omitempty"`
	// Warnings name nodes whose driver is a guess.
	Warnings []string `json:"warnings,omitempty"`
	// Taints of nodes with a driver that the chart does not tolerate by itself.
	Taints []Taint `json:"taints,omitempty"`
	Hints  []Hint  `json:"hints,omitempty"`
	// Exposures are the known CVEs of drivers that nodes run or get, by the version of the driver.
	Exposures map[string]*releases.Exposure `json:"vulnerabilities,omitempty"`

	hit map[string]bool // advisories that hit a node, by driver and id
}

// NeededImage is an image that machines need.
type NeededImage struct {
	Tag    string `json:"tag"`
	System string `json:"os"`
	Driver string `json:"driver"`
	// the newest release that the driver runs natively
	CUDA     string   `json:"cuda,omitempty"`
	RunsCUDA string   `json:"runsCUDA,omitempty"` // how it runs the release that was asked for
	Archs    []string `json:"archs"`
	GPUs     []string `json:"gpus"`             // of the nodes
	Kernels  []string `json:"kernels"`          // of the nodes
	Kernel   string   `json:"kernel,omitempty"` // for which modules are compiled ahead of time
	// of these modules, if they are not the driver's usual one
	Flavours []string `json:"flavours,omitempty"`
	Nodes    []string `json:"nodes"`             // that need it
	Asked    bool     `json:"asked"`             // whether the registry has it
	Missing  []string `json:"missing,omitempty"` // architectures that the registry lacks

	targets []matrix.Target // one for each architecture
	modules bool            // nothing else is in it
}

// Pool is a pool of the chart: nodes that get the same image and the same settings. As YAML it is
// what the chart's values have.
type Pool struct {
	Name        string `json:"name" yaml:"name"`
	System      string `json:"os" yaml:"os"`
	Driver      string `json:"driver" yaml:"driver"`
	Precompiled bool   `json:"-" yaml:"precompiled,omitempty"`
	Kernel      string `json:"kernel,omitempty" yaml:"kernel,omitempty"` // of precompiled images
	// "host": the nodes' system loads them
	Modules string `json:"modules,omitempty" yaml:"modules,omitempty"`
	// KernelModuleType is set if only one flavour works for the nodes' GPUs and kernels; else the
	// node decides.
	KernelModuleType string            `json:"kernelModuleType,omitempty" yaml:"kernelModuleType,omitempty"`
	NodeSelector     map[string]string `json:"nodeSelector" yaml:"nodeSelector"`
	// AnyOf are labels of which the nodes have one set more; empty: NodeSelector alone chooses
	// them.
	AnyOf []map[string]string `json:"anyOf,omitempty" yaml:"anyOf,omitempty"`
	Tag   string              `json:"tag" yaml:"-"`
	// versions of drivers that labels of the nodes name
	Running []string `json:"running,omitempty" yaml:"-"`
	Nodes   []string `json:"nodes" yaml:"-"`
	// ModuleImages have the modules for kernels of the nodes, as far as the registry has such
	// images.
	ModuleImages []string `json:"moduleImages,omitempty" yaml:"moduleImages,omitempty"`

	arch string
	sets []string // tags of all images of modules for its nodes
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
	NoGPU         = "no-gpu"         // it has none
	GPUUnknown    = "gpu-unknown"    // nothing has looked whether it has one
	BadReport     = "bad-report"     // what it says of itself cannot be true, or is incomplete
	HostDriver    = "host-driver"    // its system has a driver
	ManagedDriver = "managed-driver" // its platform brings the driver
	OwnWay        = "own-way"        // its system brings drivers its own way
	Jetson        = "jetson"         // its system is NVIDIA's for Jetson, which has the driver
	ForMachines   = "for-machines"   // its GPUs are for virtual machines
	// it is a guest with a vGPU, and no driver for guests may be chosen
	VGPUGuest      = "vgpu-guest"
	SystemUnknown  = "system-unknown"  // no image of the matrix is for its system
	NoDriver       = "no-driver"       // the matrix has none for its system and architecture
	GPUUnsupported = "gpu-unsupported" // no driver for its system drives the GPU
	GPUsDiffer     = "gpus-differ"     // no driver serves all of its GPUs
	KernelDrivers  = "kernel"          // no driver that fits its GPU compiles on its kernel
	// NVLink switches can join its GPUs, and no driver that fits has what manages these
	FabricUnknown = "fabric"
	NotLabelled   = "not-labelled"   // labels that a selector needs are missing, or out of date
	Alike         = "not-told-apart" // no label tells it from a node that needs something else
)

// elsewhere are the reasons for which a machine is no loss: it has no GPU, or its driver comes
// another way.
var elsewhere = []string{NoGPU, GPUUnknown, HostDriver, ManagedDriver, OwnWay, Jetson, ForMachines}

// losses are the other reasons.
var losses = []string{
	BadReport,
	VGPUGuest,
	SystemUnknown,
	NoDriver,
	GPUUnsupported,
	GPUsDiffer,
	KernelDrivers,
	FabricUnknown,
	NotLabelled,
	Alike,
}

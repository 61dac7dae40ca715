package batch

import (
	"errors"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
)

// Pair is a driver on a system, for one architecture.
type Pair struct {
	System   string   `json:"os" yaml:"os"`
	Driver   string   `json:"driver" yaml:"driver"`
	Branch   string   `json:"branch" yaml:"branch"`
	Arch     string   `json:"arch" yaml:"arch"`
	Tag      string   `json:"tag" yaml:"tag"`
	Flavours []string `json:"flavours,omitempty" yaml:"flavours,omitempty"`
	Source   string   `json:"source,omitempty" yaml:"source,omitempty"`
	// Components are the driver's programs and libraries for NVSwitch and NVLink: those that the image gets, and
	// those that are left out because no public source has their checksum.
	Components []Component `json:"components,omitempty" yaml:"components,omitempty"`
	// VGPU says whose licence a driver for vGPU guests needs; "": it is for whole GPUs.
	VGPU string `json:"vgpu,omitempty" yaml:"vgpu,omitempty"`
	// Companions are those of --companions that fit: "nvidia-fs 2.13.5".
	Companions []string `json:"companions,omitempty" yaml:"companions,omitempty"`
	// Patches are those of the kernel sources that the image gets, with the flavours that they are for:
	// "open-pci-resize-resource (open)".
	Patches []string `json:"patches,omitempty" yaml:"patches,omitempty"`
	// Recommended says why the driver is the one to take on its system: "recommended: LTS until 2028-06".
	Recommended string `json:"recommended,omitempty" yaml:"recommended,omitempty"`

	Excluded string   `json:"excluded,omitempty" yaml:"excluded,omitempty"` // the rule that says why it cannot be built
	Limits   []string `json:"limits,omitempty" yaml:"limits,omitempty"`     // kernels of the system on which modules do not work

	CUDA       string               `json:"cuda,omitempty" yaml:"cuda,omitempty"`             // the highest release that the driver runs natively
	Runs       *releases.CUDAAnswer `json:"runsCUDA,omitempty" yaml:"runsCUDA,omitempty"`     // how it runs the release that was asked for
	Advisories []releases.Note      `json:"advisories,omitempty" yaml:"advisories,omitempty"` // what is known of the driver

	Target matrix.Target `json:"-" yaml:"-"` // zero when excluded
}

// Component is a component of a driver.
type Component struct {
	Name    string `json:"name" yaml:"name"`                         // fabricmanager, imex, nscq, nvlsm, nvsdm
	Version string `json:"version" yaml:"version"`                   // the driver's, except NVLSM's
	SHA256  string `json:"sha256,omitempty" yaml:"sha256,omitempty"` // of its archive; empty: not known, the image goes without
}

// Pairs asks the matrix about each pair of a selection on its own, in the order of the matrix. Without systems
// or drivers it is about all there are.
func Pairs(m *matrix.Matrix, s matrix.Selection) ([]Pair, error) {
	s.All = true
	if _, err := m.Select(s); err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	var pairs []Pair
	for _, sys := range m.Systems {
		for _, d := range m.Drivers {
			for _, arch := range sys.Archs {
				if !Wanted(s.Systems, sys.ID) || !Wanted(s.Drivers, d.Version) || !slices.Contains(s.ArchsOf(sys), arch) {
					continue
				}
				p, err := pair(m, s, sys, d, arch)
				if err != nil {
					return nil, err
				}
				pairs = append(pairs, p)
			}
		}
	}
	return pairs, nil
}

func pair(m *matrix.Matrix, s matrix.Selection, sys matrix.System, d matrix.Driver, arch string) (Pair, error) {
	p := Pair{System: sys.ID, Driver: d.Version, Branch: d.Branch, Arch: arch, VGPU: d.VGPU, CUDA: releases.CUDAOf(d.Version, d.CUDA)}
	s.IfTheyFit = s.IfTheyFit || s.All
	s.Systems, s.Drivers, s.Archs, s.All = []string{sys.ID}, []string{d.Version}, []string{arch}, false
	targets, err := m.Select(s)
	if no, ok := errors.AsType[*matrix.IncompatibleError](err); ok {
		p.Tag, p.Excluded = matrix.Target{System: sys, Driver: d}.Tag(), no.Rule+": "+no.Reason
		return p, nil
	}
	if err != nil {
		return p, failure.Of(failure.Usage, err)
	}
	p.Target = targets[0]
	p.Limits = recipe.Limits(p.Target)
	p.Tag, p.Flavours, p.Source = p.Target.Tag(), p.Target.Flavours, d.Archives[arch].Kind()
	if _, _, ok := d.Debian.Wants(sys.ID, arch); ok {
		p.Source = "deb"
	}
	for _, c := range p.Target.Companions {
		p.Companions = append(p.Companions, c.Name+" "+c.Version)
	}
	p.Patches = patches(p.Target, p.Source)
	if !s.NoFabric && d.VGPU == "" {
		p.Components = components(p.Target.Driver, arch)
	}
	return p, nil
}

// patches returns those of a target's driver that are for its source and its flavours.
func patches(t matrix.Target, source string) (all []string) {
	from := matrix.SourceArchive
	if source == "deb" {
		from = matrix.SourcePackages
	}
	for _, p := range t.Driver.Patches {
		flavours := slices.DeleteFunc(slices.Clone(p.Flavours), func(f string) bool { return !slices.Contains(t.Flavours, f) })
		if slices.Contains(p.Sources, from) && len(flavours) > 0 {
			all = append(all, p.Name+" ("+strings.Join(flavours, ", ")+")")
		}
	}
	return all
}

// components returns what the matrix has for an architecture, and what NVIDIA's redist folder has beside it,
// by name.
func components(d matrix.Driver, arch string) (all []Component) {
	for _, c := range d.Components.For(arch) {
		all = append(all, Component{c.Name, c.Version, c.SHA256})
	}
	for _, name := range matrix.Released(d.Version) {
		if !slices.ContainsFunc(all, func(c Component) bool { return c.Name == name }) {
			all = append(all, Component{Name: name, Version: d.Version})
		}
	}
	slices.SortFunc(all, func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Wanted says whether a list names something; an empty list names everything.
func Wanted(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

// Targets are those of the pairs that are not excluded.
func Targets(pairs []Pair) (all []matrix.Target) {
	for _, p := range pairs {
		if p.Excluded == "" {
			all = append(all, p.Target)
		}
	}
	return all
}

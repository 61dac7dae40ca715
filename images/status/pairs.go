package status

import (
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
	// Components are the driver's programs and libraries for NVSwitch and NVLink: those that the
	// image gets, and those that are left out because no public source has their checksum.
	Components []Component `json:"components,omitempty" yaml:"components,omitempty"`
	// VGPU says whose licence a driver for vGPU guests needs; "": it is for whole GPUs.
	VGPU string `json:"vgpu,omitempty" yaml:"vgpu,omitempty"`
	// Companions are those of --companions that fit: "nvidia-fs 2.13.5".
	Companions []string `json:"companions,omitempty" yaml:"companions,omitempty"`
	// Patches are those of the kernel sources that the image gets, with the flavours that they are
	// for: "open-pci-resize-resource (open)".
	Patches []string `json:"patches,omitempty" yaml:"patches,omitempty"`
	// Recommended says why the driver is the one to take on its system: "recommended: LTS until
	// 2028-06".
	Recommended string `json:"recommended,omitempty" yaml:"recommended,omitempty"`

	// the rule that says why it cannot be built
	Excluded string `json:"excluded,omitempty" yaml:"excluded,omitempty"`
	// kernels of the system on which modules do not work
	Limits []string `json:"limits,omitempty" yaml:"limits,omitempty"`

	// the highest release that the driver runs natively
	CUDA string `json:"cuda,omitempty" yaml:"cuda,omitempty"`
	// how it runs the release that was asked for
	Runs *releases.CUDAAnswer `json:"runsCUDA,omitempty" yaml:"runsCUDA,omitempty"`
	// what is known of the driver
	Advisories []releases.Note `json:"advisories,omitempty" yaml:"advisories,omitempty"`
	// its known CVEs; nil if none is known
	Exposure *releases.Exposure `json:"vulnerabilities,omitempty" yaml:"vulnerabilities,omitempty"`

	Target matrix.Target `json:"-" yaml:"-"` // zero when excluded
}

// Component is a component of a driver.
type Component struct {
	// fabricmanager, imex, nscq, nvlsm, nvsdm
	Name    string `json:"name" yaml:"name"`
	Version string `json:"version" yaml:"version"` // the driver's, except NVLSM's
	// of its archive; empty: not known, the image goes without
	SHA256 string `json:"sha256,omitempty" yaml:"sha256,omitempty"`
}

// Pairs asks the matrix about each pair of a selection on its own, in the order of the matrix.
// Without systems or drivers it is about all there are.
func Pairs(m *matrix.Matrix, s matrix.Selection) ([]Pair, error) {
	s.All = true
	_, err := m.Select(s)
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	var pairs []Pair
	for _, c := range m.Candidates(s) {
		pairs = append(pairs, pair(c, s.NoFabric))
	}
	return pairs, nil
}

func pair(c matrix.Candidate, noFabric bool) Pair {
	t := c.Target
	d := c.Driver
	p := Pair{
		System: t.System.ID,
		Driver: d.Version,
		Branch: d.Branch,
		Arch:   t.Arch,
		Tag:    t.Tag(),
		VGPU:   d.VGPU,
		CUDA:   releases.CUDAOf(d.Version, d.CUDA),
	}
	if len(c.Broken) > 0 {
		p.Excluded = c.Broken[0].Rule + ": " + c.Broken[0].Reason
		return p
	}
	p.Target = t
	p.Limits = recipe.Limits(t)
	p.Flavours = t.Flavours
	p.Source = d.Archives[t.Arch].Form()
	_, _, packaged := d.Debian.Wants(t.System.ID, t.Arch)
	if packaged {
		p.Source = "deb"
	}
	for _, c := range t.Companions {
		p.Companions = append(p.Companions, c.Name+" "+c.Version)
	}
	p.Patches = patches(t, p.Source)
	if !noFabric && d.VGPU == "" {
		p.Components = components(d, t.Arch)
	}
	return p
}

// patches returns those of a target's driver that are for its source and its flavours.
func patches(t matrix.Target, source string) (all []string) {
	from := matrix.SourceArchive
	if source == "deb" {
		from = matrix.SourcePackages
	}
	for _, p := range t.Driver.Patches {
		flavours := slices.DeleteFunc(
			slices.Clone(p.Flavours),
			func(f string) bool { return !slices.Contains(t.Flavours, f) },
		)
		if slices.Contains(p.Sources, from) && len(flavours) > 0 {
			all = append(all, p.Name+" ("+strings.Join(flavours, ", ")+")")
		}
	}
	return all
}

// components returns what the matrix has for an architecture, and what NVIDIA's redist folder has
// beside it, by name.
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

// Targets are those of the pairs that are not excluded.
func Targets(pairs []Pair) (all []matrix.Target) {
	for _, p := range pairs {
		if p.Excluded == "" {
			all = append(all, p.Target)
		}
	}
	return all
}

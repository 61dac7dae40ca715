package batch

import (
	"errors"
	"slices"

	"github.com/driver-container/driver-container/images/matrix"
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
	Excluded string   `json:"excluded,omitempty" yaml:"excluded,omitempty"` // the rule that says why it cannot be built

	Target matrix.Target `json:"-" yaml:"-"` // zero when excluded
}

// Pairs asks the matrix about each pair of a selection on its own, in the order of the matrix. Empty fields
// of the selection mean all there are.
func Pairs(m *matrix.Matrix, s matrix.Selection) ([]Pair, error) {
	s.All = true
	if _, err := m.Select(s); err != nil {
		return nil, &matrix.RequestError{Err: err}
	}
	var pairs []Pair
	for _, sys := range m.Systems {
		for _, d := range m.Drivers {
			for _, arch := range sys.Archs {
				if !Wanted(s.Systems, sys.ID) || !Wanted(s.Drivers, d.Version) || !Wanted(s.Archs, arch) {
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
	p := Pair{System: sys.ID, Driver: d.Version, Branch: d.Branch, Arch: arch}
	s.Systems, s.Drivers, s.Archs, s.All = []string{sys.ID}, []string{d.Version}, []string{arch}, false
	targets, err := m.Select(s)
	if no, ok := errors.AsType[*matrix.IncompatibleError](err); ok {
		p.Tag, p.Excluded = matrix.Target{System: sys, Driver: d}.Tag(), no.Rule+": "+no.Reason
		return p, nil
	}
	if err != nil {
		return p, &matrix.RequestError{Err: err}
	}
	p.Target = targets[0]
	p.Tag, p.Flavours, p.Source = p.Target.Tag(), p.Target.Flavours, d.Archives[arch].Kind()
	if _, _, ok := d.Debian.Wants(sys.ID, arch); ok {
		p.Source = "deb"
	}
	return p, nil
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

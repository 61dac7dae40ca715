package headers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// provideIndex is the part of *rpm.Index that is used here.
type provideIndex interface {
	WhatProvides(want rpmfile.Relation) []*rpm.Package
}

// closure follows the dependencies among header packages. It returns nil when a wanted package is missing.
func (f *rpmManager) closure(x provideIndex, wants []string, e *UnavailableError) (*plan, error) {
	w := rpmWalk{x: x, arch: f.arch}
	for _, want := range wants {
		r, err := rpmfile.ParseRequirement(want)
		if err != nil {
			e.Err = err
			return nil, e
		}
		p := w.provider(r)
		if p == nil {
			e.Package = want
			e.Nearest = nearestRPM(x, f.distro, f.Release)
			return nil, nil
		}
		w.choose(p)
	}
	for i := 0; i < len(w.order); i++ {
		if err := w.addDependencies(w.order[i]); err != nil {
			e.Err = err
			return nil, e
		}
	}
	out := &plan{folder: rpmFolder}
	for _, p := range slices.Backward(w.order) {
		if p.InstalledSize < 0 {
			return nil, fmt.Errorf("%w: package %s has a negative size", ErrPackage, p)
		}
		out.packages = append(out.packages, item{Package: p.Package, unpacked: uint64(p.InstalledSize)})
	}
	return out, nil
}

// rpmWalk is one closure in progress.
type rpmWalk struct {
	x     provideIndex
	arch  string
	order []*rpm.Package
}

func (w *rpmWalk) choose(p *rpm.Package) {
	if !slices.Contains(w.order, p) {
		w.order = append(w.order, p)
	}
}

// addDependencies chooses the header packages that a package needs. The image has to have the other
// dependencies, compilers and libraries.
func (w *rpmWalk) addDependencies(p *rpm.Package) error {
	if len(w.order) > maxPackages {
		return fmt.Errorf("%s needs more than %d packages: the repository is broken", w.order[0], maxPackages)
	}
	for _, r := range p.Metadata.Requires {
		if r.Kind != "" || !isRPMHeaders(r.Relation.Name) {
			continue
		}
		if slices.ContainsFunc(w.order, func(c *rpm.Package) bool { return provides(c, r.Relation) }) {
			continue
		}
		found := w.provider(r)
		if found == nil {
			return fmt.Errorf("package %s needs %s, which the repositories do not have (a mirror in the middle of an update? then try again in some minutes)", p, r)
		}
		w.choose(found)
	}
	return nil
}

// provider returns the header package that satisfies a requirement, or one part of an alternative.
func (w *rpmWalk) provider(r rpmfile.Requirement) *rpm.Package {
	if r.Kind == "or" {
		for _, part := range r.Parts {
			if p := w.provider(part); p != nil {
				return p
			}
		}
		return nil
	}
	for _, p := range w.x.WhatProvides(r.Relation) {
		if isRPMHeaders(p.Name) && (p.Arch == w.arch || p.Arch == "noarch") {
			return p
		}
	}
	return nil
}

func provides(p *rpm.Package, r rpmfile.Relation) bool {
	return slices.ContainsFunc(p.Metadata.Provides, func(have rpmfile.Relation) bool { return have.Name == r.Name && r.Matches(have) })
}

// nearestRPM lists releases that have headers: of the same flavour those next to the wanted one, and the
// newest.
func nearestRPM(x provideIndex, d distros.RPM, release string) []string {
	wanted := distros.ParseRelease(release)
	var all []string
	for _, name := range d.KernelProvides() {
		for _, p := range x.WhatProvides(rpmfile.Relation{Name: name}) {
			_, own, _ := strings.Cut(p.Metadata.EVR.String(), ":")
			own = cmp.Or(own, p.Metadata.EVR.String())
			for _, provide := range p.Metadata.Provides {
				if r, _, ok := d.KernelOfProvide(provide.Name, provide.EVR.String(), own); ok {
					if k := distros.ParseRelease(r); k.Flavour == wanted.Flavour && k.Arch == wanted.Arch {
						all = append(all, r)
					}
				}
			}
		}
	}
	slices.SortFunc(all, distros.CompareReleases)
	all = slices.Compact(all)
	at, _ := slices.BinarySearchFunc(all, release, distros.CompareReleases)
	near := slices.Clone(all[max(0, at-2):min(len(all), at+2)])
	slices.Reverse(near) // newer ones first: they have what the wanted one has
	if len(all) > 0 && !slices.Contains(near, all[len(all)-1]) {
		near = append(near, all[len(all)-1])
	}
	return near
}

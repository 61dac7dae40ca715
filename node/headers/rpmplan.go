package headers

import (
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

// plan returns the wanted packages with the header packages that they need; none when a wanted one
// is missing.
func (f *rpmManager) plan(x provideIndex, wants []string, e *UnavailableError) (out plan, err error) {
	var chosen []*rpm.Package
	for _, want := range wants {
		r, err := rpmfile.ParseRequirement(want)
		if err != nil {
			return nil, err
		}
		p := f.provider(x, r)
		if p == nil {
			e.Package = want
			e.Newest = newestRPM(x, f.distro, f.Release)
			return nil, nil
		}
		chosen = append(chosen, p)
	}
	needs := func(p *rpm.Package, chosen []*rpm.Package) ([]*rpm.Package, error) {
		return f.needs(x, p, chosen)
	}
	all, err := closure(chosen, needs)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		out = append(out, p.Package)
	}
	return out, nil
}

// needs returns the header packages that a package needs beside the chosen ones.
func (f *rpmManager) needs(x provideIndex, p *rpm.Package, chosen []*rpm.Package) (more []*rpm.Package, err error) {
	for _, r := range p.Metadata.Requires {
		there := func(c *rpm.Package) bool { return provides(c, r.Relation) }
		if r.Operator != "" || !isRPMHeaders(r.Relation.Name) ||
			slices.ContainsFunc(slices.Concat(chosen, more), there) {
			continue
		}
		found := f.provider(x, r)
		if found == nil {
			return nil, lacking(p, r)
		}
		more = append(more, found)
	}
	return more, nil
}

// provider returns the header package that satisfies a requirement, or one part of an alternative.
func (f *rpmManager) provider(x provideIndex, r rpmfile.Requirement) *rpm.Package {
	if r.Operator == "or" {
		for _, part := range r.Parts {
			if p := f.provider(x, part); p != nil {
				return p
			}
		}
		return nil
	}
	for _, p := range x.WhatProvides(r.Relation) {
		if isRPMHeaders(p.Name) && (p.Arch == f.arch.Kernel || p.Arch == "noarch") {
			return p
		}
	}
	return nil
}

func provides(p *rpm.Package, r rpmfile.Relation) bool {
	return slices.ContainsFunc(
		p.Metadata.Provides,
		func(have rpmfile.Relation) bool { return have.Name == r.Name && r.Matches(have) },
	)
}

// isRPMHeaders says whether a package has headers, by its name: kernel-devel, kernel-rt-devel,
// kernel-uek-devel, kernel6.12-devel, kernel-default-devel and the packages that those of SUSE
// share (kernel-devel, kernel-devel-azure). kernel-headers is for programs, kernel-macros for
// packagers.
func isRPMHeaders(name string) bool {
	rest, ok := strings.CutPrefix(name, "kernel")
	return ok && slices.Contains(strings.Split(rest, "-"), "devel") &&
		!strings.HasSuffix(name, "-matched")
}

// newestRPM returns the newest release of the same flavour that has headers; "" if there is none.
func newestRPM(x provideIndex, d distros.RPM, release string) (best string) {
	wanted := distros.ParseRelease(release)
	for _, name := range d.KernelProvides() {
		for _, p := range x.WhatProvides(rpmfile.Relation{Name: name}) {
			evr := p.Metadata.EVR.String()
			own := evr[strings.Index(evr, ":")+1:]
			for _, provide := range p.Metadata.Provides {
				r, _, ok := d.KernelOfProvide(provide.Name, provide.EVR.String(), own)
				if k := distros.ParseRelease(r); ok && k.Flavour == wanted.Flavour &&
					k.Arch == wanted.Arch &&
					(best == "" || distros.CompareReleases(r, best) > 0) {
					best = r
				}
			}
		}
	}
	return best
}

package headers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

const maxPackages = 50 // of one kernel; in practice one to three

// closure adds the header packages that others need, and returns all of them, dependencies first. needs returns those that a
// package needs beside the chosen ones. The package managers would install all dependencies; the package comment says what these are.
func closure[P comparable](chosen []P, needs func(p P, chosen []P) ([]P, error)) ([]P, error) {
	for i := 0; i < len(chosen); i++ {
		if len(chosen) > maxPackages {
			return nil, fmt.Errorf("%v needs more than %d packages: the repository is broken", chosen[0], maxPackages)
		}
		more, err := needs(chosen[i], chosen)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, more...)
	}
	slices.Reverse(chosen)
	return chosen, nil
}

// lacking says that a repository does not have what a header package needs.
func lacking(p, needs any) error {
	return fmt.Errorf("package %v needs %v, which the repositories do not have (a mirror in the middle of an update? then try again in some minutes)", p, needs)
}

// catalogue is the part of *apt.Index that is used here.
type catalogue interface {
	Candidate(name string) (*apt.Package, bool)
	Versions(name string) []apt.Package
}

// plan returns the wanted packages with the header packages that they need. libc is the version of the image's C library; "" if it is
// not known.
func (f *debManager) plan(x catalogue, libc dpkg.Version, wants []string, arch string, e *UnavailableError) (*plan, error) {
	var chosen []*apt.Package
	for _, name := range wants {
		p, ok := x.Candidate(name)
		if !ok {
			e.Package, e.Nearest = name, newest(x, f.Release)
			return nil, e
		}
		chosen = append(chosen, p)
	}
	all, err := closure(chosen, func(p *apt.Package, chosen []*apt.Package) ([]*apt.Package, error) {
		return debNeeds(x, libc, arch, p, chosen)
	})
	if err != nil {
		e.Err = err
		return nil, e
	}
	out := &plan{}
	for _, p := range all {
		size, err := installedSize(*p)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPackage, err)
		}
		out.packages = append(out.packages, item{p.Package, size})
	}
	return out, nil
}

// debNeeds returns the header packages that a package needs. Its other dependencies the image has, or the compile does not need them,
// except the C library: without the right one fixdep and modpost, which every module needs, do not start.
func debNeeds(x catalogue, libc dpkg.Version, arch string, p *apt.Package, chosen []*apt.Package) (more []*apt.Package, err error) {
	for _, field := range []string{"Pre-Depends", "Depends"} {
		groups, err := dpkg.ParseRelations(p.Paragraph.Get(field), arch)
		if err != nil {
			return nil, fmt.Errorf("package %s: %s: %w", label(p.Package), field, err)
		}
		for _, group := range groups {
			text := dpkg.Relations{group}.String()
			if r := group[0]; r.Name == "libc6" && libc != "" && !r.Matches(libc) {
				return nil, fmt.Errorf("the tools in package %s need %s, and the image has %s: use an image of the system that the node's kernel was made for",
					label(p.Package), text, libc)
			}
			group = slices.DeleteFunc(slices.Clone(group), func(r dpkg.Relation) bool { return !isHeaders(r.Name) })
			there := func(r dpkg.Relation) bool {
				return slices.ContainsFunc(slices.Concat(chosen, more), func(c *apt.Package) bool { return c.Name == r.Name })
			}
			if len(group) == 0 || slices.ContainsFunc(group, there) {
				continue
			}
			found := debFind(x, group)
			if found == nil {
				return nil, lacking(label(p.Package), text)
			}
			more = append(more, found)
		}
	}
	return more, nil
}

// debFind returns a header package that satisfies one of the alternatives: the version that apt would choose, else the newest.
func debFind(x catalogue, group []dpkg.Relation) *apt.Package {
	for _, r := range group {
		if p, ok := x.Candidate(r.Name); ok && r.Matches(dpkg.Version(p.Version)) {
			return p
		}
		for _, p := range x.Versions(r.Name) {
			if r.Matches(dpkg.Version(p.Version)) {
				return &p
			}
		}
	}
	return nil
}

// isHeaders says whether a package has headers or their tools, by its name: linux-headers-*,
// linux-hwe-6.8-headers-*, linux-kbuild-*. Their other dependencies are compilers (and
// linux-compiler-gcc-12-x86, which only names one), kernel images and libraries.
func isHeaders(name string) bool {
	return strings.Contains(name, "linux-") && (strings.Contains(name, "headers-") || strings.Contains(name, "kbuild-"))
}

// installedSize returns the size of the unpacked package, 0 when the package does not give it.
func installedSize(p apt.Package) (uint64, error) {
	text := p.Paragraph.Get("Installed-Size")
	if text == "" {
		return 0, nil
	}
	kib, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return 0, errors.New("package " + label(p.Package) + ": bad Installed-Size " + strconv.Quote(text))
	}
	return kib << 10, nil
}

// newest returns the release that the metapackage of the kernel's flavour (linux-headers-amd64) depends on; nil if there is none.
func newest(x catalogue, release string) []string {
	flavour := regexp.MustCompile(`-([a-z][a-z0-9]*(-[a-z0-9]+)*)$`).FindStringSubmatch(release)
	if flavour == nil {
		return nil
	}
	meta, ok := x.Candidate("linux-headers-" + flavour[1])
	if !ok {
		return nil
	}
	groups, err := dpkg.ParseRelations(meta.Paragraph.Get("Depends"), meta.Arch)
	if err != nil {
		return nil
	}
	for _, group := range groups {
		if r, ok := strings.CutPrefix(group[0].Name, "linux-headers-"); ok {
			return []string{r}
		}
	}
	return nil
}

// provideIndex is the part of *rpm.Index that is used here.
type provideIndex interface {
	WhatProvides(want rpmfile.Relation) []*rpm.Package
}

// plan returns the wanted packages with the header packages that they need; nil when a wanted one is missing.
func (f *rpmManager) plan(x provideIndex, wants []string, e *UnavailableError) (*plan, error) {
	var chosen []*rpm.Package
	for _, want := range wants {
		r, err := rpmfile.ParseRequirement(want)
		if err != nil {
			e.Err = err
			return nil, e
		}
		p := f.provider(x, r)
		if p == nil {
			e.Package, e.Nearest = want, newestRPM(x, f.distro, f.Release)
			return nil, nil
		}
		chosen = append(chosen, p)
	}
	all, err := closure(chosen, func(p *rpm.Package, chosen []*rpm.Package) (more []*rpm.Package, err error) {
		for _, r := range p.Metadata.Requires {
			there := func(c *rpm.Package) bool { return provides(c, r.Relation) }
			if r.Kind != "" || !isRPMHeaders(r.Relation.Name) || slices.ContainsFunc(slices.Concat(chosen, more), there) {
				continue
			}
			found := f.provider(x, r)
			if found == nil {
				return nil, lacking(p, r)
			}
			more = append(more, found)
		}
		return more, nil
	})
	if err != nil {
		e.Err = err
		return nil, e
	}
	out := &plan{folder: rpmFolder}
	for _, p := range all {
		if p.InstalledSize < 0 {
			return nil, fmt.Errorf("%w: package %s has a negative size", ErrPackage, p)
		}
		out.packages = append(out.packages, item{p.Package, uint64(p.InstalledSize)})
	}
	return out, nil
}

// provider returns the header package that satisfies a requirement, or one part of an alternative.
func (f *rpmManager) provider(x provideIndex, r rpmfile.Requirement) *rpm.Package {
	if r.Kind == "or" {
		for _, part := range r.Parts {
			if p := f.provider(x, part); p != nil {
				return p
			}
		}
		return nil
	}
	for _, p := range x.WhatProvides(r.Relation) {
		if isRPMHeaders(p.Name) && (p.Arch == f.arch || p.Arch == "noarch") {
			return p
		}
	}
	return nil
}

func provides(p *rpm.Package, r rpmfile.Relation) bool {
	return slices.ContainsFunc(p.Metadata.Provides, func(have rpmfile.Relation) bool { return have.Name == r.Name && r.Matches(have) })
}

// isRPMHeaders says whether a package has headers, by its name: kernel-devel, kernel-rt-devel,
// kernel-uek-devel, kernel6.12-devel, kernel-default-devel and the packages that those of SUSE share
// (kernel-devel, kernel-devel-azure). kernel-headers is for programs, kernel-macros for packagers.
func isRPMHeaders(name string) bool {
	rest, ok := strings.CutPrefix(name, "kernel")
	return ok && slices.Contains(strings.Split(rest, "-"), "devel") && !strings.HasSuffix(name, "-matched")
}

// newestRPM returns the newest release of the same flavour that has headers.
func newestRPM(x provideIndex, d distros.RPM, release string) []string {
	wanted, best := distros.ParseRelease(release), ""
	for _, name := range d.KernelProvides() {
		for _, p := range x.WhatProvides(rpmfile.Relation{Name: name}) {
			evr := p.Metadata.EVR.String()
			own := evr[strings.Index(evr, ":")+1:]
			for _, provide := range p.Metadata.Provides {
				r, _, ok := d.KernelOfProvide(provide.Name, provide.EVR.String(), own)
				if k := distros.ParseRelease(r); ok && k.Flavour == wanted.Flavour && k.Arch == wanted.Arch && (best == "" || distros.CompareReleases(r, best) > 0) {
					best = r
				}
			}
		}
	}
	if best == "" {
		return nil
	}
	return []string{best}
}

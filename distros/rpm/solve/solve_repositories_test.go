package solve

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// repositories stand in for an index: packages in its order, and the owners of the files that Metadata does
// not name.
type repositories struct {
	arch     string
	packages []rpm.Package
	owners   func(path string) []*rpm.Package
}

// newRepositories sorts packages, which come in the order of their sources, in the order of an index.
func newRepositories(arch string, packages []rpm.Package) *repositories {
	packages = slices.Clone(packages)
	slices.SortStableFunc(packages, func(a, b rpm.Package) int {
		return cmp.Or(
			strings.Compare(a.Name, b.Name), cmp.Compare(min(len(a.Hidden), 1), min(len(b.Hidden), 1)), cmp.Compare(a.Priority, b.Priority),
			rpmfile.Compare(b.Metadata.EVR, a.Metadata.EVR), cmp.Compare(rpm.ArchRank(a.Arch), rpm.ArchRank(b.Arch)),
		)
	})
	packages = slices.CompactFunc(packages, func(a, b rpm.Package) bool {
		return a.Name == b.Name && a.Arch == b.Arch && (a.Hidden == "") == (b.Hidden == "") && rpmfile.Compare(a.Metadata.EVR, b.Metadata.EVR) == 0
	})
	return &repositories{arch: arch, packages: packages}
}

func (x *repositories) find(matches func(p *rpm.Package) bool) (found []*rpm.Package) {
	for i := range x.packages {
		if p := &x.packages[i]; matches(p) {
			found = append(found, p)
		}
	}
	return found
}

func (x *repositories) Arch() string { return x.arch }

func (x *repositories) Versions(name string) []*rpm.Package {
	return x.find(func(p *rpm.Package) bool { return p.Hidden == "" && p.Name == name })
}

func (x *repositories) WhatProvides(want rpmfile.Relation) []*rpm.Package {
	return x.find(func(p *rpm.Package) bool { return p.Hidden == "" && p.Metadata.Meets(want) })
}

func (x *repositories) Providing(name string) []*rpm.Package {
	return x.find(func(p *rpm.Package) bool {
		return p.Name == name || slices.Contains(p.Metadata.Files, name) ||
			slices.ContainsFunc(p.Metadata.Provides, func(r rpmfile.Relation) bool { return r.Name == name })
	})
}

func (x *repositories) Obsoleting(name string) []*rpm.Package {
	return x.find(func(p *rpm.Package) bool {
		return p.Hidden == "" && slices.ContainsFunc(p.Metadata.Obsoletes, func(r rpmfile.Relation) bool { return r.Name == name })
	})
}

// Owners returns the entry of owners if no package names the file itself.
func (x *repositories) Owners(_ context.Context, file string) ([]*rpm.Package, error) {
	if found := x.WhatProvides(rpmfile.Relation{Name: file}); len(found) > 0 || x.owners == nil {
		return found, nil
	}
	return x.owners(file), nil
}

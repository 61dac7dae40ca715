package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/distros/rpm/solve"
	"github.com/driver-container/driver-container/images/recipe"
)

// rpmRepositories are rpm's, with the base that packages are resolved for.
type rpmRepositories struct {
	*rpm.Releases
	installed []rpmfile.Metadata // of the base
	mirror    distros.Mirror
}

// Digest also covers the logins at mirrors: they are part of the addresses of packages, which cached plans
// hold.
func (r rpmRepositories) Digest() string {
	digest := r.Releases.Digest()
	addresses := strings.Join(r.mirror.URLs(), " ")
	if !strings.Contains(addresses, "@") {
		return digest
	}
	sum := sha256.Sum256([]byte(digest + addresses))
	return hex.EncodeToString(sum[:])
}

func (r rpmRepositories) Client(url string) (*fetch.Client, error) { return r.Clients().For(url) }

func (r rpmRepositories) load(ctx context.Context) (index, error) {
	all, err := r.Load(ctx)
	if err != nil {
		return nil, err
	}
	return rpmIndex{all, r.installed, r.mirror}, nil
}

// rpmIndex is rpm's index, with what the base has.
type rpmIndex struct {
	*rpm.Index
	installed []rpmfile.Metadata
	mirror    distros.Mirror
}

// pinned returns a package whose address includes the login at the mirror. Package rpm keeps logins out of addresses
// and adds them to its own requests. A recipe is built without its knowledge of mirrors, so its addresses hold them, as
// those of .deb packages do, and Recipe.Public removes them.
func (x rpmIndex) pinned(p *rpm.Package) distros.Package {
	out := p.Package
	out.URL = x.mirror.Login(out.URL)
	return out
}

func (x rpmIndex) resolve(ctx context.Context, want []string) ([]distros.Package, error) {
	found, err := solve.Resolve(ctx, x.Index, x.installed, want)
	all := make([]distros.Package, len(found))
	for i := range found {
		all[i] = x.pinned(&found[i])
	}
	return all, err
}

// find ignores the driver: drivers are never taken from rpm packages.
func (x rpmIndex) find(want, _ string) (*distros.Package, error) {
	p, err := x.Find(want)
	if err != nil {
		return nil, err
	}
	found := x.pinned(p)
	return &found, nil
}

// kernels picks the kernels out of what packages provide.
func (x rpmIndex) kernels(d distros.Distro, _ string) []Kernel {
	system, ok := d.(distros.RPM)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	list := kernelList{usual: func(flavour string) string { return x.defaultSeries(system, flavour) }}
	for _, name := range system.KernelProvides() {
		for _, p := range x.WhatProvides(rpmfile.Relation{Name: name}) {
			for _, k := range kernelsOfRPM(system, p) {
				if !seen[k.Release] {
					seen[k.Release], k.URL = true, x.mirror.Login(k.URL)
					list.add(k, slices.ContainsFunc(system.KernelImages(k.Release), x.offers))
				}
			}
		}
	}
	return list.all()
}

// kernelsOfRPM are the kernels that a package has the headers of: one, in every repository seen.
func kernelsOfRPM(d distros.RPM, p *rpm.Package) (all []Kernel) {
	own := p.Metadata.EVR
	own.Epoch = ""
	for _, rel := range p.Metadata.Provides {
		version := rel.EVR
		version.Epoch = ""
		if release, flavour, ok := d.KernelOfProvide(rel.Name, version.String(), own.String()); ok {
			all = append(all, Kernel{distros.Kernel{Release: release, Flavour: flavour, Headers: p.Name, Version: p.Version}, p.URL})
		}
	}
	return all
}

// offers reports whether a package satisfies a dependency, given as text.
func (x rpmIndex) offers(text string) bool {
	want, err := rpmfile.ParseRequirement(text)
	return err == nil && len(x.WhatProvides(want.Relation)) > 0
}

// defaultSeries is the series of the newest kernel that the package of a flavour is for, "" when there is
// none.
func (x rpmIndex) defaultSeries(d distros.RPM, flavour string) string {
	meta, ok := x.Candidate(d.KernelMeta(flavour))
	if !ok {
		return ""
	}
	for _, k := range kernelsOfRPM(d, meta) {
		if k.Flavour == flavour {
			return recipe.SeriesOf(k.Release)
		}
	}
	return ""
}

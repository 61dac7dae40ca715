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
	distro    distros.Distro
	installed []rpmfile.Metadata // of the base
	mirror    distros.Mirror
	index     *rpm.Index // once it is loaded
}

// Digest also covers the logins at mirrors: they are part of the addresses of packages, which
// cached plans hold.
func (r *rpmRepositories) Digest() string {
	digest := r.Releases.Digest()
	addresses := strings.Join(r.mirror.URLs(), " ")
	if !strings.Contains(addresses, "@") {
		return digest
	}
	sum := sha256.Sum256([]byte(digest + addresses))
	return hex.EncodeToString(sum[:])
}

func (r *rpmRepositories) Client(url string) (*fetch.Client, error) { return r.Clients().For(url) }

func (r *rpmRepositories) load(ctx context.Context) (notes []string, err error) {
	r.index, err = r.Load(ctx)
	if err != nil {
		return nil, err
	}
	return r.index.Notes(), nil
}

// pinned returns a package whose address includes the login at the mirror. Package rpm keeps logins
// out of addresses and adds them to its own requests. A recipe is built without its knowledge of
// mirrors, so its addresses hold them, as those of .deb packages do, and Recipe.Public removes
// them.
func (r *rpmRepositories) pinned(p *rpm.Package) distros.Package {
	out := p.Package
	out.URL = r.mirror.Login(out.URL)
	return out
}

func (r *rpmRepositories) resolve(
	ctx context.Context,
	want, _ []string,
) ([]distros.Package, error) {
	found, err := solve.Resolve(ctx, r.index, r.installed, want)
	all := make([]distros.Package, len(found))
	for i := range found {
		all[i] = r.pinned(&found[i])
	}
	return all, err
}

// find finds nothing: the matrix names packages of drivers and companions for Debian only.
func (r *rpmRepositories) find(want, _ string) (*distros.Package, error) {
	return nil, &distros.UnresolvableError{
		Relation: want,
		Reason:   "which is not taken from rpm packages",
	}
}

// alone takes the package with the shortest name: kernel-core, not kernel-uki-virt.
func (r *rpmRepositories) alone(want string) (*distros.Package, bool) {
	all := r.providers(want)
	if len(all) == 0 {
		return nil, false
	}
	shortest := slices.MinFunc(all, func(a, b *rpm.Package) int { return len(a.Name) - len(b.Name) })
	pin := r.pinned(shortest)
	return &pin, true
}

// kernels picks the kernels out of what packages provide.
func (r *rpmRepositories) kernels(d distros.Distro) (all []Kernel) {
	system, ok := d.(distros.RPM)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for _, name := range system.KernelProvides() {
		for _, p := range r.index.WhatProvides(rpmfile.Relation{Name: name}) {
			for _, k := range kernelsOfRPM(system, p) {
				if seen[k.Release] {
					continue
				}
				seen[k.Release] = true
				k.URL = r.mirror.Login(k.URL)
				k.whole = slices.ContainsFunc(system.KernelImages(k.Release), r.offers)
				all = append(all, k)
			}
		}
	}
	return usable(all, func(flavour string) string { return r.defaultSeries(system, flavour) })
}

// kernelsOfRPM are the kernels that a package has the headers of: one, in every repository seen.
func kernelsOfRPM(d distros.RPM, p *rpm.Package) (all []Kernel) {
	own := p.Metadata.EVR
	own.Epoch = ""
	for _, rel := range p.Metadata.Provides {
		version := rel.EVR
		version.Epoch = ""
		release, flavour, ok := d.KernelOfProvide(rel.Name, version.String(), own.String())
		if ok {
			k := Kernel{URL: p.URL}
			k.Release = release
			k.Flavour = flavour
			k.Headers = p.Name
			k.Version = p.Version
			all = append(all, k)
		}
	}
	return all
}

// offers reports whether a package satisfies a dependency, given as text.
func (r *rpmRepositories) offers(text string) bool { return len(r.providers(text)) > 0 }

// providers are the packages that satisfy a dependency.
func (r *rpmRepositories) providers(text string) []*rpm.Package {
	want, err := rpmfile.ParseRequirement(text)
	if err != nil {
		return nil
	}
	return r.index.WhatProvides(want.Relation)
}

// defaultSeries is the series of the newest kernel that the package of a flavour is for, "" when
// there is none.
func (r *rpmRepositories) defaultSeries(d distros.RPM, flavour string) string {
	meta, ok := r.index.Candidate(d.KernelMeta(flavour))
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

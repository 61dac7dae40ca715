package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// FetchHeaders downloads, by env, what a node with this image downloads to compile for kernels: the signed
// heads and the indexes of the image's own repositories, and the header packages. It returns the kernels that
// they have; one that they lack is no error. Other errors: ErrNotCompiling, and those of Plan.
func (b *Builder) FetchHeaders(ctx context.Context, ref string, img *registry.Opened, releases []string, env packages.Env) (found []string, err error) {
	step := b.Observe.Begin(ref, "kernel headers")
	defer func() { err = step.End(false, err) }()
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	info, err := describedIn(ctx, img.Image, spool, step)
	if err != nil {
		return nil, fmt.Errorf("kernel headers for %s: %w", ref, err)
	}
	distro, err := distros.Lookup(info.OS)
	if err != nil {
		return nil, err
	}
	tree, err := packages.ReadBase(ctx, b.Layers(), img.Image, img.Digest.String(), spool, step)
	if err != nil {
		return nil, err
	}
	s := packages.Sources{Distro: distro, Arch: info.Arch, Kernels: releases}
	repos, err := packages.Open(ctx, env, s, tree)
	if err != nil {
		return nil, err
	}
	for _, release := range releases {
		wants := distro.Headers(release)
		if wants == nil {
			continue
		}
		pins, err := packages.Resolve(ctx, repos, recipe.Wants{Image: wants}, info.Driver, step)
		if _, missing := errors.AsType[*distros.UnresolvableError](err); missing {
			step.Note(fmt.Sprintf("kernel %s: %v", release, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range pins.Packages {
			client, err := repos.Client(p.URL)
			if err == nil {
				_, _, err = client.Get(ctx, recipe.PackageFile(p), func(done, total int64) { step.Progress(p.Name+" "+p.Version, done, total) })
			}
			if err != nil {
				return nil, fmt.Errorf("package %s: %w", p.Name, err)
			}
		}
		found = append(found, release)
	}
	return found, nil
}

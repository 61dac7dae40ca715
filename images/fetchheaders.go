package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// FetchHeaders downloads, by a client, what a node with this image downloads to compile for kernels: the
// signed heads and the indexes of the image's own repositories, and the header packages. It returns
// the kernels that they have; one that they lack is no error. Other errors: ErrNotCompiling, and
// those of Plan.
func (b *Builder) FetchHeaders(ctx context.Context, ref string, img *registry.Opened, releases []string, client *fetch.Client) (found []string, err error) {
	env := b.env()
	env.Store = client.Store
	env.Fetch = client
	err = b.step(ref, "kernel headers", func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		t, info, err := compiling(ctx, ref, img, spool, step)
		if err != nil {
			return false, fmt.Errorf("kernel headers for %s: %w", ref, err)
		}
		tree, err := packages.ReadBase(ctx, b.Layers(), img.Image, img.Digest.String(), spool, step)
		if err != nil {
			return false, err
		}
		repos, err := packages.Open(ctx, env, packages.SourcesOf(t, recipe.Options{Kernels: releases}), tree)
		if err != nil {
			return false, err
		}
		for _, release := range releases {
			wants := t.Distro.Headers(release)
			if wants == nil {
				continue
			}
			pins, err := packages.Resolve(ctx, repos, recipe.Wants{Image: wants}, info.Driver, step)
			if _, missing := errors.AsType[*distros.UnresolvableError](err); missing {
				step.Note(fmt.Sprintf("kernel %s: %v", release, err))
				continue
			}
			if err != nil {
				return false, err
			}
			for _, p := range pins.Packages {
				client, err := repos.Client(p.URL)
				if err == nil {
					_, _, err = client.Get(ctx, recipe.PackageFile(p), step.File(p.Name+" "+p.Version))
				}
				if err != nil {
					return false, fmt.Errorf("package %s: %w", p.Name, err)
				}
			}
			found = append(found, release)
		}
		return false, nil
	})
	return found, err
}

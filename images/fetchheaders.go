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
	env := b.Env()
	env.Store = client.Store
	env.Fetch = client
	work := func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		c, err := b.openCompiler(ctx, env, ref, img, releases, spool, step)
		if err != nil {
			return false, fmt.Errorf("kernel headers for %s: %w", ref, err)
		}
		for _, release := range releases {
			err := c.fetchHeaders(ctx, release, step)
			_, missing := errors.AsType[*distros.UnresolvableError](err)
			if missing {
				step.Note(fmt.Sprintf("kernel %s: %v", release, err))
				continue
			}
			if err != nil {
				return false, err
			}
			if c.target.Distro.Headers(release) != nil {
				found = append(found, release)
			}
		}
		return false, nil
	}
	err = b.Step(ref, "kernel headers", work)
	return found, err
}

// fetchHeaders downloads the header packages of a kernel, if it is one of the system.
func (c compilerImage) fetchHeaders(
	ctx context.Context,
	release string,
	step *progress.Step,
) error {
	wants := recipe.Wants{Image: c.target.Distro.Headers(release)}
	if wants.Image == nil {
		return nil
	}
	pins, err := packages.Resolve(ctx, c.repos, wants, c.info.Driver, step)
	if err != nil {
		return err
	}
	for _, p := range pins.Packages {
		err = fetchPackage(ctx, c.repos, p, step)
		if err != nil {
			return fmt.Errorf("package %s: %w", p.Name, err)
		}
	}
	return nil
}

func fetchPackage(
	ctx context.Context,
	repos packages.Repositories,
	p distros.Package,
	step *progress.Step,
) error {
	client, err := repos.Client(p.URL)
	if err != nil {
		return err
	}
	_, _, err = client.Get(ctx, recipe.PackageFile(p), step.File(p.Name+" "+p.Version))
	return err
}

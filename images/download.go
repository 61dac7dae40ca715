package images

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Download brings the packages and the driver of a recipe into the cache, verified by their digests. The base
// is there already: planning reads it.
func (b *Builder) Download(ctx context.Context, r *recipe.Recipe) error {
	step := b.Observe.Await(r.Target(), "download")
	if err := step.End(false, b.download(ctx, r, step)); err != nil {
		return fmt.Errorf("download for %s: %w", r.Target(), err)
	}
	return nil
}

func (b *Builder) download(ctx context.Context, r *recipe.Recipe, step *progress.Step) error {
	reader, err := b.packageReader(ctx, r, step)
	if err != nil {
		return err
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(b.AtOnce())
	get := func(client *fetch.Client, f fetch.File) error {
		_, _, err := client.Get(ctx, f, func(done, total int64) { step.Progress(path.Base(f.URL), done, total) })
		return err
	}
	for _, p := range r.AllPackages() {
		eg.Go(func() error {
			client, err := reader.Client(p.URL)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			return get(client, recipe.PackageFile(p))
		})
	}
	for _, c := range r.Fabric {
		eg.Go(func() error {
			_, err := driver.ComponentFile(ctx, b.Fetch, c, r.Driver, func(done, total int64) { step.Progress(path.Base(c.File.URL), done, total) })
			return err
		})
	}
	for _, c := range r.Companions {
		if c.File != nil {
			eg.Go(func() error {
				_, err := driver.CompanionFile(ctx, b.Fetch, c, func(done, total int64) { step.Progress(path.Base(c.File.URL), done, total) })
				return err
			})
		}
	}
	for _, p := range r.Patches {
		eg.Go(func() error {
			_, err := driver.PatchText(ctx, b.Fetch, p)
			return err
		})
	}
	if file := r.Source.Archive(); file != nil {
		eg.Go(func() error { return get(b.Fetch, *file) })
	}
	return eg.Wait()
}

// packageReader reads the packages of a recipe, by the configuration of its base.
func (b *Builder) packageReader(ctx context.Context, r *recipe.Recipe, step *progress.Step) (reader packages.Reader, err error) {
	base, err := b.base(ctx, r.Base.Location, r)
	if err != nil {
		return reader, err
	}
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return reader, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
	if err != nil {
		return reader, err
	}
	return packages.NewReader(b.Env, sources(r), lower)
}

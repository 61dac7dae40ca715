package images

import (
	"context"
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

// Download brings the packages and the driver of a recipe into the cache, verified by their
// digests. The base is there already: planning reads it.
func (b *Builder) Download(ctx context.Context, r *recipe.Recipe) error {
	err := b.step(r.Target(), "download", func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		base, err := b.base(ctx, r)
		if err != nil {
			return false, err
		}
		lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
		if err != nil {
			return false, err
		}
		reader, err := packages.NewReader(b.env(), sources(r), lower)
		if err != nil {
			return false, err
		}
		bytesOf := func(url string) func(done, total int64) {
			return func(done, total int64) { step.Progress(path.Base(url), done, total) }
		}
		eg, ctx := errgroup.WithContext(ctx)
		eg.SetLimit(b.env().AtOnce())
		get := func(client *fetch.Client, f fetch.File) error {
			_, _, err := client.Get(ctx, f, bytesOf(f.URL))
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
				_, err := driver.ComponentFile(ctx, b.Fetch, c, r.Driver, bytesOf(c.File.URL))
				return err
			})
		}
		for _, c := range r.Companions {
			if c.File != nil {
				eg.Go(func() error {
					_, err := driver.CompanionFile(ctx, b.Fetch, c, bytesOf(c.File.URL))
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
		return false, eg.Wait()
	})
	if err != nil {
		err = fmt.Errorf("download for %s: %w", r.Target(), err)
	}
	return err
}

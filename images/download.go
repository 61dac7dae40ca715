package images

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rootfs"
)

// packages lists all packages of a recipe, each once.
func (r *Recipe) packages() []distros.Package {
	all := slices.Concat(r.Packages, r.Source.Packages, r.Compiler)
	for _, k := range r.Kernels {
		all = append(all, k.Headers...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(p distros.Package) bool {
		again := seen[p.Digest()]
		seen[p.Digest()] = true
		return again
	})
}

// Files lists what a recipe downloads, besides the base, each once.
func (r *Recipe) Files() []fetch.File {
	var files []fetch.File
	for _, p := range r.packages() {
		files = append(files, packageFile(p))
	}
	if r.Source.Runfile != nil {
		files = append(files, *r.Source.Runfile)
	}
	return files
}

// Download brings the packages and the driver of a recipe into the cache, verified by their digests. The base is there already:
// planning reads it.
func (b *Builder) Download(ctx context.Context, r *Recipe) error {
	step := b.Observe.Begin(r.Target(), "download")
	if err := step.End(false, b.download(ctx, r, step)); err != nil {
		return fmt.Errorf("download for %s: %w", r.Target(), err)
	}
	return nil
}

func (b *Builder) download(ctx context.Context, r *Recipe, step *Step) error {
	by, err := b.packageReader(ctx, r, step)
	if err != nil {
		return err
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(b.jobs())
	get := func(client *fetch.Client, f fetch.File) error {
		_, _, err := client.Get(ctx, f, func(done, total int64) { step.Progress(path.Base(f.URL), done, total) })
		return err
	}
	for _, p := range r.packages() {
		eg.Go(func() error {
			client, err := by.client(p.URL)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			return get(client, packageFile(p))
		})
	}
	if r.Source.Runfile != nil {
		eg.Go(func() error { return get(b.Fetch, *r.Source.Runfile) })
	}
	return eg.Wait()
}

// packageReader gives what brings the packages of a recipe, by the configuration of its base.
func (b *Builder) packageReader(ctx context.Context, r *Recipe, step *Step) (by packageReader, err error) {
	f, err := r.family()
	if err != nil {
		return by, err
	}
	base, err := b.base(ctx, r.Base.Location, r)
	if err != nil {
		return by, err
	}
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return by, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	lower, err := b.baseTree(ctx, base, r.Base.Digest, spool, step)
	if err != nil {
		return by, err
	}
	return f.reader(b, r, lower)
}

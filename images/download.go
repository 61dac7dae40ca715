package images

import (
	"context"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/fetch"
)

// Files lists what a recipe downloads, besides the base, each once.
func (r *Recipe) Files() []fetch.File {
	var files []fetch.File
	all := slices.Concat(r.Packages, r.Source.Packages, r.Compiler)
	for _, k := range r.Kernels {
		all = append(all, k.Headers...)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if !seen[p.Digest()] {
			seen[p.Digest()] = true
			files = append(files, packageFile(p))
		}
	}
	if r.Source.Runfile != nil {
		files = append(files, *r.Source.Runfile)
	}
	return files
}

// Download brings the packages and the driver of a recipe into the cache, verified. The base is there already: planning
// reads it.
func (b *Builder) Download(ctx context.Context, r *Recipe) error {
	step := b.Observe.Begin(r.Target(), "download")
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(b.jobs())
	for _, f := range r.Files() {
		eg.Go(func() error {
			_, _, err := b.Fetch.Get(ctx, f, func(done, total int64) { step.Progress(path.Base(f.URL), done, total) })
			return err
		})
	}
	if err := step.End(false, eg.Wait()); err != nil {
		return fmt.Errorf("download for %s: %w", r.Target(), err)
	}
	return nil
}

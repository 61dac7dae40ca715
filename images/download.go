package images

import (
	"cmp"
	"context"
	"fmt"
	"path"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Download is a file, or an image, that images are made from.
type Download struct {
	Digest string // with its kind: "sha256:..."
	Path   string // of a file in the cache; "" for an image
	Name   string // the address of a file, the reference of an image
}

// DownloadBase brings the base of an image into the cache. One of this machine is where it is.
func (b *Builder) DownloadBase(ctx context.Context, d *Draft) (found Download, err error) {
	ref := d.Base()
	options := registry.OpenOptions{Arch: d.Recipe.Arch, Part: registry.Layers}
	opened, err := b.Registry.Open(ctx, ref, options)
	if err != nil {
		return found, fmt.Errorf("base image of %s: %w", d.target.System.ID, err)
	}
	found = Download{Digest: opened.Digest.String(), Name: opened.Name}
	if oci.IsLocal(ref) {
		found.Name = ref
	}
	return found, nil
}

// Download brings everything that an image is made from into the cache, verified by its digest, and
// lists it.
func (b *Builder) Download(ctx context.Context, r *recipe.Recipe) (all []Download, err error) {
	work := func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		all, err = b.downloadImages(ctx, r)
		if err != nil {
			return false, err
		}
		return false, b.downloadFiles(ctx, r, spool, step)
	}
	err = b.Step(r.Target(), "download", work)
	if err != nil {
		return nil, fmt.Errorf("download for %s: %w", r.Target(), err)
	}
	for _, f := range r.Public().Files() {
		location := b.Store.Path(cmp.Or(f.SHA256, f.SHA512))
		all = append(all, Download{Digest: f.Digest(), Path: location, Name: f.URL})
	}
	return all, nil
}

// downloadImages opens the base of an image, and the images that its modules are compiled in.
func (b *Builder) downloadImages(
	ctx context.Context,
	r *recipe.Recipe,
) (all []Download, err error) {
	_, err = b.base(ctx, r)
	if err != nil {
		return nil, err
	}
	list := func(image recipe.Base) {
		name := cmp.Or(image.Name, image.Location)
		all = append(all, Download{Digest: image.Digest, Name: name})
	}
	list(r.Base)
	for _, k := range r.Kernels {
		if k.Toolkit == nil {
			continue
		}
		_, _, err := b.headersImage(ctx, *k.Toolkit, r.Arch)
		if err != nil {
			return nil, err
		}
		list(*k.Toolkit)
	}
	return all, nil
}

// downloadFiles downloads packages, the driver and what belongs to it.
func (b *Builder) downloadFiles(
	ctx context.Context,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) error {
	reader, err := b.packageReader(ctx, r, spool, step)
	if err != nil {
		return err
	}
	report := func(url string) func(done, total int64) { return step.File(path.Base(url)) }
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(b.Env().AtOnce())
	for _, p := range r.AllPackages() {
		eg.Go(func() error {
			client, err := reader.Client(p.URL)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			_, _, err = client.Get(ctx, recipe.PackageFile(p), report(p.URL))
			return err
		})
	}
	for _, c := range r.Fabric {
		eg.Go(func() error {
			_, err := driver.ComponentFile(ctx, b.Fetch, c, r.Driver, report(c.File.URL))
			return err
		})
	}
	for _, c := range r.Companions {
		if c.File == nil {
			continue
		}
		eg.Go(func() error {
			_, err := driver.CompanionFile(ctx, b.Fetch, c, report(c.File.URL))
			return err
		})
	}
	for _, p := range r.Patches {
		eg.Go(func() error {
			_, err := driver.PatchText(ctx, b.Fetch, p)
			return err
		})
	}
	eg.Go(func() error {
		archive := r.Source.Archive()
		if archive == nil {
			return nil
		}
		_, _, err := b.Fetch.Get(ctx, *archive, report(archive.URL))
		return err
	})
	return eg.Wait()
}

// packageReader downloads from the image's repositories, with the keys of its base.
func (b *Builder) packageReader(
	ctx context.Context,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) (found packages.Reader, err error) {
	base, err := b.base(ctx, r)
	if err != nil {
		return found, err
	}
	lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
	if err != nil {
		return found, err
	}
	return packages.NewReader(b.Env(), sources(r), lower)
}

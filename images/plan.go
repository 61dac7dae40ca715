package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Layers are those of the cache.
func (b *Builder) Layers() layer.Cache {
	return layer.Cache{
		Store:   b.Store,
		Observe: b.Observe,
		Making:  &b.making,
		Finder:  b.Finished,
	}
}

// Cached is a builder that asks no server: what it plans with is in the cache already, or is
// fetch.ErrOffline.
func (b *Builder) Cached() (*Builder, error) {
	client, err := registry.New(registry.Options{Store: b.Store, Offline: true})
	if err != nil {
		return nil, err
	}
	cached := b.with(b.Store)
	cached.Registry = client
	cached.Fetch = &fetch.Client{Store: b.Store, Offline: true}
	cached.Finished = b.Finished
	return cached, nil
}

// OpenError is why the base of a system, or its repositories, cannot be read: no image of the
// system can be planned.
type OpenError struct{ Err error }

func (e *OpenError) Error() string { return e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }

// FindPins finds what goes into the image of a target. It reads the base and the signed package
// indexes and downloads no package and no driver. What keeps it from reading them is an *OpenError.
func (b *Builder) FindPins(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
) (pins recipe.Pins, err error) {
	r, err := recipe.New(t, o)
	if err != nil {
		return pins, err
	}
	return pins, b.step(
		r.Target(),
		"plan",
		func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
			base, repos, err := b.open(ctx, t, o, spool, step)
			if err != nil {
				return false, &OpenError{err}
			}
			pins, err = b.resolve(ctx, base.Digest, repos, r.Asked.Wants, t.Driver.Version, step)
			if err != nil {
				// Images that ask the same share this error, so it does not name one of them.
				return false, fmt.Errorf("packages of %s %s: %w", t.System.ID, t.Arch, err)
			}
			pins.Base = base
			pins.Toolkits, err = b.headersImages(ctx, t, o, step)
			return false, err
		},
	)
}

// step is a step of the work that reads images, whose contents go into the spool.
func (b *Builder) step(
	target, name string,
	work func(*rootfs.Spool, *progress.Step) (cached bool, err error),
) error {
	step := b.Observe.Await(target, name)
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return step.End(false, err)
	}
	cached, err := work(spool, step)
	return step.End(cached, errors.Join(err, spool.Close()))
}

// open reads the base of a target and opens the repositories that its configuration names.
func (b *Builder) open(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
	spool *rootfs.Spool,
	step *progress.Step,
) (found recipe.Base, repos packages.Repositories, err error) {
	ref := cmp.Or(o.Base, t.System.Base)
	base, err := b.Registry.Open(
		ctx,
		ref,
		registry.OpenOptions{Arch: t.Arch, Part: registry.Layers},
	)
	if oci.IsLocal(ref) && errors.Is(err, fs.ErrNotExist) {
		return found, nil, fmt.Errorf("%w: %w", packages.ErrBase, err)
	}
	if _, remote := errors.AsType[*registry.Error](err); remote && o.Base == "" {
		return found, nil, fmt.Errorf(
			"base image of %s: %w; without that registry, give a copy of the image (--base oci:DIR); "+
				"for a release of Debian, make image OS=SYSTEM DRIVER=%s in a checkout makes the base of Debian's own packages",
			t.System.ID,
			err,
			t.Driver.Version,
		)
	}
	if err != nil {
		return found, nil, fmt.Errorf("base image of %s: %w", t.System.ID, err)
	}
	found = recipe.Base{Name: base.Name, Digest: base.Digest.String(), Location: ref}
	if oci.IsLocal(ref) {
		found.Name = "" // a path of this machine has no place in an image
	}
	tree, err := packages.ReadBase(ctx, b.Layers(), base.Image, found.Digest, spool, step)
	if err != nil {
		return found, nil, err
	}
	if err := packages.CheckSystem(tree, t.Distro); err != nil {
		return found, nil, fmt.Errorf("base %s: %w", ref, err)
	}
	repos, err = packages.Open(ctx, b.env(), packages.SourcesOf(t, o), tree)
	return found, repos, err
}

// resolve finds packages, unless an earlier plan of equal base, repositories and wants has found
// them.
func (b *Builder) resolve(
	ctx context.Context,
	base string,
	repos packages.Repositories,
	w recipe.Wants,
	driver string,
	step *progress.Step,
) (pins recipe.Pins, err error) {
	return remembered(
		b,
		layer.Key("plan", base, repos.Digest(), driver, w),
		func() (recipe.Pins, error) { return packages.Resolve(ctx, repos, w, driver, step) },
	)
}

// remembered returns the cached value of a key. If there is none it calls find and caches its
// result.
func remembered[T any](b *Builder, key string, find func() (T, error)) (found T, err error) {
	if _, ok := b.Store.Lookup("plan", key, &found); ok {
		return found, nil
	}
	found, err = find()
	if err != nil {
		return found, err
	}
	return found, b.Store.Note("plan", key, "", found)
}

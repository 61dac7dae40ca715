package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"

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

// Planner finds the pins of images. Env and Registry are needed.
type Planner struct {
	packages.Env
	Registry *registry.Client
	Observe  progress.Observer

	// Finished finds finished layers in registries; nil: every layer is made on this machine.
	Finished *layer.Finder

	// layers in the making, by key, and errors of those that could not be made
	making   layer.Once[v1.Layer]
	outlines layer.Once[*rootfs.Members]
}

// Layers are those of the cache.
func (p *Planner) Layers() layer.Cache {
	return layer.Cache{
		Store:    p.Store,
		Observe:  p.Observe,
		Making:   &p.making,
		Outlines: &p.outlines,
		Finder:   p.Finished,
	}
}

// Cached is a planner that asks no server: what it needs is in the cache already, or is
// fetch.ErrOffline.
func (p *Planner) Cached() (*Planner, error) {
	client, err := registry.New(registry.Options{Store: p.Store, Offline: true})
	if err != nil {
		return nil, err
	}
	cached := &Planner{Env: p.Env, Registry: client, Observe: p.Observe, Finished: p.Finished}
	cached.Fetch = &fetch.Client{Store: p.Store, Offline: true}
	return cached, nil
}

// OpenError is why the base of a system, or its repositories, cannot be read: no image of the
// system can be planned.
type OpenError struct{ Err error }

func (e *OpenError) Error() string { return e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }

// FindPins finds what goes into the image of a target. It reads the base and the signed package
// indexes and downloads no package and no driver. What keeps it from reading them is an *OpenError.
func (p *Planner) FindPins(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
) (pins recipe.Pins, err error) {
	r, err := recipe.New(t, o)
	if err != nil {
		return pins, err
	}
	return pins, p.step(
		r.Target(),
		"plan",
		func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
			base, repos, err := p.open(ctx, t, o, spool, step)
			if err != nil {
				return false, &OpenError{err}
			}
			pins, err = p.resolve(ctx, base.Digest, repos, r.Asked.Wants, t.Driver.Version, step)
			if err != nil {
				// Images that ask the same share this error, so it does not name one of them.
				return false, fmt.Errorf("packages of %s %s: %w", t.System.ID, t.Arch, err)
			}
			pins.Base = base
			pins.Toolkits, err = p.headersImages(ctx, t, o, step)
			return false, err
		},
	)
}

// step is a step of the work that reads images, whose contents go into the spool.
func (p *Planner) step(
	target, name string,
	work func(*rootfs.Spool, *progress.Step) (cached bool, err error),
) error {
	step := p.Observe.Await(target, name)
	spool, err := rootfs.NewSpool(p.Store.Dir())
	if err != nil {
		return step.End(false, err)
	}
	cached, err := work(spool, step)
	return step.End(cached, errors.Join(err, spool.Close()))
}

// open reads the base of a target and opens the repositories that its configuration names.
func (p *Planner) open(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
	spool *rootfs.Spool,
	step *progress.Step,
) (found recipe.Base, repos packages.Repositories, err error) {
	ref := cmp.Or(o.Base, t.System.Base)
	base, err := p.Registry.Open(
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
	tree, err := packages.ReadBase(ctx, p.Layers(), base.Image, found.Digest, spool, step)
	if err != nil {
		return found, nil, err
	}
	if err := packages.CheckSystem(tree, t.Distro); err != nil {
		return found, nil, fmt.Errorf("base %s: %w", ref, err)
	}
	repos, err = packages.Open(ctx, p.Env, packages.SourcesOf(t, o), tree)
	return found, repos, err
}

// resolve finds packages, unless an earlier plan of equal base, repositories and wants has found
// them.
func (p *Planner) resolve(
	ctx context.Context,
	base string,
	repos packages.Repositories,
	w recipe.Wants,
	driver string,
	step *progress.Step,
) (pins recipe.Pins, err error) {
	return remembered(
		p,
		layer.Key("plan", base, repos.Digest(), driver, w),
		func() (recipe.Pins, error) { return packages.Resolve(ctx, repos, w, driver, step) },
	)
}

// remembered returns the cached value of a key. If there is none it calls find and caches its
// result.
func remembered[T any](p *Planner, key string, find func() (T, error)) (found T, err error) {
	if _, ok := p.Store.Lookup("plan", key, &found); ok {
		return found, nil
	}
	found, err = find()
	if err != nil {
		return found, err
	}
	return found, p.Store.Note("plan", key, "", found)
}

package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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
		Written: b.noteLibraries,
	}
}

// OpenError is why the base of a system, or its repositories, cannot be read: no image of the
// system can be planned.
type OpenError struct{ Err error }

func (e *OpenError) Error() string { return e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }

// Plan returns the recipes of what a request asks for, with everything that goes into the images
// pinned. It reads bases and the signed indexes of packages, each once in the life of the builder,
// and downloads no package and no driver. The recipes are in the order of the targets.
//
// A target that cannot be planned does not stop the others, whose recipes come with the error: of
// several targets it is [ErrSomeFailed], and says each cause once. Images that share a tag are
// planned together or not at all.
func (b *Builder) Plan(ctx context.Context, q Request) ([]*recipe.Recipe, error) {
	drafts, failed := b.AllDrafts(ctx, q)
	errs := Parallel(ctx, b.Jobs, len(drafts), func(i int) error {
		return b.Complete(ctx, drafts[i])
	})
	for i, d := range drafts {
		failed.Add(d.Recipe.Tag, errs[i])
	}
	var recipes []*recipe.Recipe
	for _, d := range drafts {
		if !failed.Has(d.Recipe.Tag) {
			recipes = append(recipes, d.Recipe)
		}
	}
	tags := ByTag(recipes, func(r *recipe.Recipe) string { return r.Tag })
	return recipes, failed.Err(len(tags))
}

// AllDrafts returns the drafts of all targets of a request, as [Builder.Drafts] does, and the errors
// of those that have none.
func (b *Builder) AllDrafts(ctx context.Context, q Request) (drafts []*Draft, failed Failures) {
	found := make([][]*Draft, len(q.Targets))
	errs := Parallel(ctx, b.Jobs, len(q.Targets), func(i int) (err error) {
		found[i], err = b.Drafts(ctx, q, q.Targets[i])
		return err
	})
	for i, t := range q.Targets {
		failed.Add(t.Tag(), errs[i])
	}
	return slices.Concat(found...), failed
}

// Complete makes a draft a recipe that can be built: see [Builder.Resolve]. The recipe has the
// programs of this builder.
func (b *Builder) Complete(ctx context.Context, d *Draft) (err error) {
	d.Recipe.Builder = b.Info
	d.Recipe.Entrypoint, err = b.Binaries(d.Recipe.Arch) // before anything is asked
	if err != nil {
		return err
	}
	return b.Resolve(ctx, d)
}

// Resolve pins what a draft asks registries and repositories for, unless the lock has it. Equal
// requests are resolved once.
func (b *Builder) Resolve(ctx context.Context, d *Draft) error {
	if d.locked != nil {
		return d.Recipe.Pin(d.options, *d.locked)
	}
	key := layer.Key("pins", d.platform(), d.Recipe.Asked)
	if len(d.Recipe.Asked.Driver)+len(d.Recipe.Asked.Signed) > 0 {
		key += d.Recipe.Driver
	}
	pins, err := b.pins.Get(ctx, key, func() (recipe.Pins, error) { return b.findOnce(ctx, d) })
	if err != nil {
		return nameError(d.Recipe.Tag, err)
	}
	return d.Recipe.Pin(d.options, pins)
}

// findOnce finds the pins of a draft. The first draft of a platform reads base and repositories, the
// others find them in the cache, so that all images of a system are planned from one state. What
// keeps the first from reading them keeps the others too; what it lacks itself does not.
func (b *Builder) findOnce(ctx context.Context, d *Draft) (recipe.Pins, error) {
	first := false
	pins, err := b.first.Get(ctx, d.platform(), func() (recipe.Pins, error) {
		first = true
		return b.findPins(ctx, d)
	})
	_, closed := errors.AsType[*OpenError](err)
	if first || closed || ctx.Err() != nil {
		return pins, err
	}
	offline, err := b.offline()
	if err != nil {
		return pins, err
	}
	pins, err = offline.findPins(ctx, d)
	if !errors.Is(err, fetch.ErrOffline) {
		return pins, err
	}
	// an index that the first did not need, or that has left the cache
	return b.findPins(ctx, d)
}

// offline is a builder that asks no server: what it plans with is in the cache already, or is
// fetch.ErrOffline.
func (b *Builder) offline() (*Builder, error) {
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

// findPins finds what a draft asks for. What keeps it from reading the base or the repositories is
// an *OpenError.
func (b *Builder) findPins(ctx context.Context, d *Draft) (pins recipe.Pins, err error) {
	t := d.target
	work := func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		system, err := b.OpenSystem(ctx, t, d.options, spool, step)
		if err != nil {
			return false, &OpenError{err}
		}
		wants := d.Recipe.Asked.Wants
		pins, err = b.resolve(ctx, system.Base.Digest, system.Repositories, wants, t.Driver.Version, step)
		if err != nil {
			// Images that ask the same share this error, so it does not name one of them.
			return false, fmt.Errorf("packages of %s: %w", t.Platform(), err)
		}
		pins.Base = system.Base
		pins.Toolkits, err = b.headersImages(ctx, t, d.options, step)
		return false, err
	}
	err = b.Step(d.Recipe.Target(), "plan", work)
	return pins, err
}

// Step is a step of the work that reads images, whose contents go into the spool.
func (b *Builder) Step(
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

// System is the base of a system with the repositories that its configuration names.
type System struct {
	Base         recipe.Base
	Facts        *rootfs.Tree // see packages.ReadBase
	Repositories packages.Repositories
}

// OpenSystem reads the base of a target and opens its repositories.
func (b *Builder) OpenSystem(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
	spool *rootfs.Spool,
	step *progress.Step,
) (system System, err error) {
	ref := cmp.Or(o.Base, t.System.Base)
	base, err := b.Registry.Open(
		ctx,
		ref,
		registry.OpenOptions{Arch: t.Arch, Part: registry.Layers},
	)
	if oci.IsLocal(ref) && errors.Is(err, fs.ErrNotExist) {
		return system, fmt.Errorf("%w: %w", packages.ErrBase, err)
	}
	if _, remote := errors.AsType[*registry.Error](err); remote && o.Base == "" {
		return system, fmt.Errorf(
			"base image of %s: %w; without that registry, give a copy of the image (--base oci:DIR); "+
				"for a release of Debian, make image OS=SYSTEM DRIVER=%s in a checkout makes the base of Debian's own packages",
			t.System.ID,
			err,
			t.Driver.Version,
		)
	}
	if err != nil {
		return system, fmt.Errorf("base image of %s: %w", t.System.ID, err)
	}
	system.Base = recipe.Base{Name: base.Name, Digest: base.Digest.String(), Location: ref}
	if oci.IsLocal(ref) {
		system.Base.Name = "" // a path of this machine has no place in an image
	}
	system.Facts, err = packages.ReadBase(ctx, b.Layers(), base.Image, system.Base.Digest, spool, step)
	if err != nil {
		return system, err
	}
	err = packages.CheckSystem(system.Facts, t.Distro)
	if err != nil {
		return system, fmt.Errorf("base %s: %w", ref, err)
	}
	system.Repositories, err = packages.Open(ctx, b.Env(), packages.SourcesOf(t, o), system.Facts)
	return system, err
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
	const kind = "plan"
	key := layer.Key(kind, base, repos.Digest(), driver, w)
	return remembered(b, kind, key, func() (recipe.Pins, error) {
		return packages.Resolve(ctx, repos, w, driver, step)
	})
}

// remembered returns the value of a record of the cache. If there is none it calls find and records
// its result.
func remembered[T any](
	b *Builder,
	kind, key string,
	find func() (T, error),
) (found T, err error) {
	_, ok := b.Store.Lookup(kind, key, &found)
	if ok {
		return found, nil
	}
	found, err = find()
	if err != nil {
		return found, err
	}
	return found, b.Store.Note(kind, key, "", found)
}

// Package images turns targets of the matrix into driver images.
//
// Plan pins everything that goes into an image and returns a Recipe; Build makes layers from it, each a pure function of its
// inputs and kept in a cache by their digest, and assembles them on the base. Verify checks any image against what the rest
// of the stack expects of a driver container, Inspect says what an image holds. Nothing is executed and nothing is unpacked
// onto the machine, so no step needs root or a daemon, but one: modules that are compiled ahead of time are a step of a
// runner (package runner). Where images come from and go to is package registry's.
package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Builder makes images. All fields but Observe are needed. It is safe for concurrent use: targets that share a layer make it
// once.
type Builder struct {
	Store    *fetch.Store
	Fetch    *fetch.Client
	Registry *registry.Client
	Binaries func(arch string) ([]Binary, error) // the programs that go into the entrypoint layer
	Info     BuilderInfo
	Jobs     int // downloads and packages unpacked at a time; 0: 4
	Observe  Observer

	// Machine is the root of this machine, for the subscription that repositories may ask for and that is mounted into containers
	// of subscribed hosts; nothing of it goes into images. nil: there is none.
	Machine       fs.FS
	AllowRollback bool // accept an index of rpm packages that is older than one seen before

	// Runner gives what compiles modules ahead of time. It is asked when there is something to compile; nil: nothing can be compiled.
	Runner   func(context.Context) (runner.Runner, error)
	Compiles int          // compiles at a time; 0: 1
	Signer   *sign.Signer // of modules that are compiled ahead of time; nil: they stay unsigned

	running   singleflight.Group // layers in the making, by key
	compiling sync.Once          // makes slots
	slots     *semaphore.Weighted
}

func (b *Builder) jobs() int {
	if b.Jobs > 0 {
		return b.Jobs
	}
	return 4
}

// Build makes the image of a recipe. It fails as fetch, apt, runfile and dpkg do; what was finished stays in the cache.
func (b *Builder) Build(ctx context.Context, r *Recipe) (v1.Image, error) {
	base, err := b.base(ctx, r.Base.Location, r)
	if err != nil {
		return nil, err
	}
	var packages, entrypoint, description v1.Layer
	var driver driverLayers
	var modules []namedLayer
	eg, ectx := errgroup.WithContext(ctx)
	eg.Go(func() (err error) { packages, err = b.packagesLayer(ectx, r, base); return err })
	eg.Go(func() (err error) { driver, err = b.driverLayers(ectx, r); return err })
	eg.Go(func() (err error) { entrypoint, err = b.entrypointLayer(ectx, r); return err })
	eg.Go(func() (err error) { description, err = b.descriptionLayer(ectx, r); return err })
	eg.Go(func() (err error) { modules, err = b.modulesLayers(ectx, r, base); return err })
	if err := eg.Wait(); err != nil {
		return nil, fmt.Errorf("build %s: %w", r.Target(), err)
	}
	layers := []namedLayer{{"packages", packages}, {"user-mode driver", driver.user}}
	if r.Sources {
		layers = append(layers, namedLayer{"kernel sources", driver.kernel})
	}
	layers = append(layers, modules...)
	return assemble(r, base, append(layers, namedLayer{"entrypoint", entrypoint}, namedLayer{"description", description}))
}

// base reads the base image and makes sure that it is the one that was planned.
func (b *Builder) base(ctx context.Context, location string, r *Recipe) (v1.Image, error) {
	base, err := b.Registry.Base(ctx, location, r.Arch)
	if err != nil {
		return nil, fmt.Errorf("base image of %s: %w", r.Target(), err)
	}
	if got := base.Digest.String(); got != r.Base.Digest {
		return nil, fmt.Errorf("base image %s is %s now, but was planned as %s: plan again", location, got, r.Base.Digest)
	}
	return base.Image, nil
}

// layer returns the layer of a key, from the cache or made by fill. Of callers that want the same layer at the same time one
// makes it and the others wait.
func (b *Builder) layer(ctx context.Context, r *Recipe, name, key string, fill func(context.Context, *rootfs.Spool, *Step) (*rootfs.Tree, error)) (v1.Layer, error) {
	cache := layerCache{b.Store}
	step := b.Observe.Begin(r.Target(), name+" layer")
	if l, ok := cache.get(key); ok {
		return l, step.End(true, nil)
	}
	made, err := once(ctx, &b.running, key, func() (v1.Layer, error) {
		spool, err := rootfs.NewSpool(b.Store.Dir())
		if err != nil {
			return nil, err
		}
		defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
		tree, err := fill(ctx, spool, step)
		if err != nil {
			return nil, err
		}
		return b.finish(ctx, r, key, tree, step)
	})
	if err != nil {
		return nil, step.End(false, fmt.Errorf("%s layer: %w", name, err))
	}
	return made, step.End(false, nil)
}

// errAbandoned says that work was stopped before its end because nobody wanted it any more.
var errAbandoned = errors.New("abandoned")

// once runs f, or waits for another caller that is running it under the same key. When that caller is cancelled its result
// is no answer for this one, which then runs f itself.
func once[T any](ctx context.Context, running *singleflight.Group, key string, f func() (T, error)) (T, error) {
	for {
		made, err, _ := running.Do(key, func() (any, error) {
			result, err := f()
			if err != nil && ctx.Err() != nil {
				err = errors.Join(errAbandoned, ctx.Err()) // whatever it was, it came from being stopped
			}
			return result, err
		})
		if errors.Is(err, errAbandoned) && ctx.Err() == nil {
			continue
		}
		result, ok := made.(T)
		if err == nil && !ok {
			err = fmt.Errorf("unexpected result %T", made)
		}
		return result, err
	}
}

// finish compresses a tree and notes the result in the cache.
func (b *Builder) finish(ctx context.Context, r *Recipe, key string, tree *rootfs.Tree, step *Step) (v1.Layer, error) {
	rec, err := writeLayer(ctx, b.Store, tree, r.Compression, r.time(), step)
	if err != nil {
		return nil, err
	}
	if err := (layerCache{b.Store}).put(key, rec); err != nil {
		return nil, err
	}
	return &storedLayer{rec, b.Store}, nil
}

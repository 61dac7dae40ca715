package images

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// driverLayers are those of a driver. kernel may be nil if only user is needed.
type driverLayers struct{ user, kernel v1.Layer }

// driverSpecs are what they are made from.
type driverSpecs struct{ user, kernel layer.Spec }

// userMode is the name of the layer of what the profile keeps of the driver.
func userMode(r *recipe.Recipe) string {
	if r.Profile == recipe.ModulesOnly {
		return "licence"
	}
	return "user-mode driver"
}

func userModeKey(r *recipe.Recipe) string {
	return layer.Key(
		"user-mode",
		driver.Layout,
		r.Source.Digests(),
		r.Driver,
		r.LibDir,
		r.LibDir32,
		r.Profile,
		r.Compression,
		r.Epoch,
	)
}

// kernelSourcesKey names the patches of sources that have any.
func kernelSourcesKey(r *recipe.Recipe) string {
	inputs := []any{r.Source.Digests(), r.Driver, r.Flavours, r.Compression, r.Epoch}
	if sums := r.PatchDigests(r.Flavours...); len(sums) > 0 {
		inputs = append(inputs, sums)
	}
	return layer.Key("kernel-sources", inputs...)
}

// driverLayers makes the layers of the driver, which do not depend on the system but on its library
// folders. They come from one pass over its archives, and only if one of those that are needed is
// not finished yet. Of the callers that need layers from one archive at the same time one unpacks
// it; the others find what it made in the cache.
func (b *Builder) driverLayers(
	ctx context.Context,
	r *recipe.Recipe,
	needKernel bool,
) (driverLayers, error) {
	step := b.Observe.Await(r.Target(), "driver "+r.Driver)
	of := driverSpecs{
		user:   spec(r, userMode(r), userModeKey(r)),
		kernel: spec(r, "kernel sources", kernelSourcesKey(r)),
	}
	for {
		have := driverLayers{user: b.finishedDriver(ctx, r, of, of.user, step)}
		if needKernel || have.user == nil { // it is made in the same pass
			have.kernel = b.finishedDriver(ctx, r, of, of.kernel, step)
		}
		if have.user != nil && (have.kernel != nil || !needKernel) {
			return have, step.End(true, nil)
		}
		mine := false
		made, err := b.unpacking.Do(
			ctx,
			layer.Key("driver archive", r.Source.Digests()),
			func() (driverLayers, error) {
				mine = true
				return b.unpackDriver(ctx, r, have, of, step)
			},
		)
		if err != nil {
			return made, step.End(false, fmt.Errorf("driver %s: %w", r.Driver, err))
		}
		if mine {
			return made, step.End(false, nil)
		}
	}
}

// finishedDriver returns one of the layers from the cache or a registry; nil if neither has it.
func (b *Builder) finishedDriver(
	ctx context.Context,
	r *recipe.Recipe,
	all driverSpecs,
	of layer.Spec,
	step *progress.Step,
) v1.Layer {
	if l, ok := b.Layers().Get(of.Key); ok {
		return l
	}
	l, _ := b.Layers().Find(ctx, of, func(ctx context.Context) (v1.Layer, error) {
		made, err := b.unpackDriver(ctx, r, driverLayers{}, all, step)
		if of.Key == all.user.Key {
			return made.user, err
		}
		return made.kernel, err
	}, step)
	return l
}

// unpackDriver makes the layers that are missing in have.
func (b *Builder) unpackDriver(
	ctx context.Context, r *recipe.Recipe, have driverLayers, of driverSpecs, step *progress.Step,
) (driverLayers, error) {
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return have, err
	}
	defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
	d, err := driver.Read(ctx, b.Env(), r, spool, step)
	if err != nil {
		return have, err
	}
	eg, ectx := errgroup.WithContext(ctx)
	if have.user == nil {
		start(eg, &have.user, func() (v1.Layer, error) {
			return b.Layers().Write(ectx, of.user, d.User, step)
		})
	}
	if have.kernel == nil {
		start(eg, &have.kernel, func() (v1.Layer, error) {
			return b.Layers().Write(ectx, of.kernel, d.Kernel, step)
		})
	}
	err = eg.Wait()
	return have, err
}

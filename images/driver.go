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

type driverLayers struct{ user, kernel v1.Layer }

// driverLayers makes both layers of the driver. They come from one pass over its archives, and only if one of
// them is not in the cache. They do not depend on the system but on its library folders.
func (b *Builder) driverLayers(ctx context.Context, r *recipe.Recipe) (driverLayers, error) {
	userKey, err := layer.Key("user-mode", driver.Layout, r.Source.Digests(), r.Driver, r.LibDir, r.LibDir32, r.Profile, r.Compression, r.Epoch)
	if err != nil {
		return driverLayers{}, err
	}
	kernelKey, err := layer.Key("kernel-sources", r.Source.Digests(), r.Driver, r.Flavours, r.Compression, r.Epoch)
	if err != nil {
		return driverLayers{}, err
	}
	step := b.Observe.Begin(r.Target(), "driver "+r.Driver)
	cache := b.Layers()
	var have driverLayers
	have.user, _ = cache.Get(userKey)
	have.kernel, _ = cache.Get(kernelKey)
	if have.user != nil && have.kernel != nil {
		return have, step.End(true, nil)
	}
	made, err := layer.Once(ctx, &b.running, userKey+kernelKey, func() (driverLayers, error) {
		return b.unpackDriver(ctx, r, have, userKey, kernelKey, step)
	})
	if err != nil {
		err = fmt.Errorf("driver %s: %w", r.Driver, err)
	}
	return made, step.End(false, err)
}

// unpackDriver makes the layers that are missing in have.
func (b *Builder) unpackDriver(
	ctx context.Context, r *recipe.Recipe, have driverLayers, userKey, kernelKey string, step *progress.Step,
) (out driverLayers, err error) {
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return out, err
	}
	defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
	d, err := driver.Read(ctx, b.Env, r, spool, step)
	if err != nil {
		return out, err
	}
	out = have
	eg, ctx := errgroup.WithContext(ctx)
	if have.user == nil {
		eg.Go(func() (err error) {
			out.user, err = b.Layers().Write(ctx, spec(r, "user-mode driver", userKey), d.User, step)
			return err
		})
	}
	if have.kernel == nil {
		eg.Go(func() (err error) {
			out.kernel, err = b.Layers().Write(ctx, spec(r, "kernel sources", kernelKey), d.Kernel, step)
			return err
		})
	}
	return out, eg.Wait()
}

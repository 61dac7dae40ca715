package images

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// fabricLayer makes the layer of the driver's components; nil if the image has none. All systems with the
// same library folder share it.
func (b *Builder) fabricLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	if len(r.Fabric) == 0 {
		return nil, nil //nolint:nilnil // no layer is a result
	}
	key, err := layer.Key("fabric", driver.FabricLayout, r.FabricDigests(), r.Driver, r.Arch, r.LibDir, r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	step := b.Observe.Begin(r.Target(), "components of driver "+r.Driver)
	if have, ok := b.Layers().Get(key); ok {
		return have, step.End(true, nil)
	}
	made, err := layer.Once(ctx, &b.running, key, func() (l v1.Layer, err error) {
		spool, err := rootfs.NewSpool(b.Store.Dir())
		if err != nil {
			return nil, err
		}
		defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
		tree, err := driver.ReadFabric(ctx, b.Env, r, spool, step)
		if err != nil {
			return nil, err
		}
		return b.Layers().Write(ctx, spec(r, recipe.FabricLayer, key), tree, step)
	})
	if err != nil {
		err = fmt.Errorf("components of driver %s: %w", r.Driver, err)
	}
	return made, step.End(false, err)
}

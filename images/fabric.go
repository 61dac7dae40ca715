package images

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
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
	l, err := b.Layers().Make(ctx, spec(r, recipe.FabricLayer, key), func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		return driver.ReadFabric(ctx, b.Env, r, spool, step)
	})
	if err != nil {
		return nil, fmt.Errorf("components of driver %s: %w", r.Driver, err)
	}
	return l, nil
}

package images

import (
	"bytes"
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// descriptionLayer holds one small file. It is a layer of its own, so that images of all systems and drivers
// share the entrypoint.
func (b *Builder) descriptionLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	info, err := r.Describe()
	if err != nil {
		return nil, err
	}
	return b.describedLayer(ctx, r, info)
}

func (b *Builder) describedLayer(ctx context.Context, r *recipe.Recipe, info driverinfo.Description) (v1.Layer, error) {
	text, err := info.Encode()
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	k, err := layer.Key("description", string(text), r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	of := spec(r, descriptionName, k)
	of.Single = true
	return b.Layers().Make(ctx, of, func(_ context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		return tree, tree.AddFile(driverinfo.Path, 0o644, int64(len(text)), bytes.NewReader(text))
	})
}

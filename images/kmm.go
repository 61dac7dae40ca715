package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/kmm"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/moduleset"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// forKMM is a layer with compiled modules and what Kernel Module Management needs of them, with its key. Its
// modules are those of the layer without, so that nothing is compiled twice.
func (b *Builder) forKMM(
	r *recipe.Recipe, name, key string, compiled func(context.Context) (v1.Layer, error),
) (string, func(context.Context) (v1.Layer, error), error) {
	key, err := layer.Key("kmm-modules", key, kmm.Method)
	return key, func(ctx context.Context) (v1.Layer, error) {
		return b.Layers().Make(ctx, spec(r, name+", for KMM", key), func(ctx context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
			plain, err := compiled(ctx)
			if err != nil {
				return nil, err
			}
			tree := rootfs.New(spool, nil)
			return tree, moduleset.Each(ctx, b.Store, plain, func(set *kbuild.Set, _ string) error {
				if err := moduleset.Add(tree, set); err != nil {
					return err
				}
				return kmm.Add(tree, set)
			})
		})
	}, err
}

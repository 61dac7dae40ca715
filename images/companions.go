package images

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/moduleset"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// companionsLayer makes the layer with the sources of the companions; nil if the image has none. All images
// with the same companions share it.
func (b *Builder) companionsLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	if len(r.Companions) == 0 {
		return nil, nil //nolint:nilnil // no layer is a result
	}
	key, err := layer.Key("companions", driver.CompanionsLayout, r.CompanionIDs(""), r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	return b.Layers().Make(ctx, spec(r, recipe.CompanionsLayer, key), func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		return driver.ReadCompanions(ctx, b.Env, r, spool, step)
	})
}

// omitted returns which companions the layers with modules do not have, with the reasons, as the image's
// label has them: "nvidia-fs for 6.1.0-56-amd64 (open): error: ...". It is empty if there are none.
func (b *Builder) omitted(ctx context.Context, r *recipe.Recipe, modules []namedLayer) (string, error) {
	if len(r.Companions) == 0 {
		return "", nil
	}
	var all []string
	step := b.Observe.Begin(r.Target(), "companions")
	err := func() error {
		for _, l := range modules {
			manifests, err := moduleset.Manifests(ctx, l.layer)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			for _, m := range manifests {
				for _, o := range m.Omitted {
					all = append(all, fmt.Sprintf("%s for %s (%s): %s", o.Module, m.Key.Release, m.Key.Flavour, o.Reason))
				}
			}
		}
		return nil
	}()
	slices.Sort(all)
	for _, line := range all {
		step.Note("left out: " + line)
	}
	return strings.Join(all, "; "), step.End(false, err)
}

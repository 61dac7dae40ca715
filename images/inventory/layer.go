package inventory

import (
	"context"
	"fmt"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// LayerName is the name of the layer in the history of images: "driver-build VERSION: file list".
const LayerName = "file list"

// Layer makes the layer with the list of all files of the layers below it and with the
// configuration, and returns it with the digest of the list, as recipe.LabelFiles has it. of needs
// no key.
func Layer(
	ctx context.Context, cache layer.Cache, of layer.Spec, below []v1.Layer, config *v1.ConfigFile,
) (made v1.Layer, digest string, err error) {
	inputs := []any{of.Compression, of.Time.Unix(), config}
	for _, l := range below {
		d, err := l.Digest()
		if err != nil {
			return nil, "", err
		}
		inputs = append(inputs, d.String())
	}
	return listLayer(ctx, cache, of, inputs, func(step *progress.Step) (List, error) {
		files, err := Of(ctx, cache, below, step)
		return List{config, files}, err
	})
}

// ListLayer is Layer for a list that is there already.
func ListLayer(
	ctx context.Context,
	cache layer.Cache,
	of layer.Spec,
	list List,
) (made v1.Layer, digest string, err error) {
	data, err := list.Encode()
	if err != nil {
		return nil, "", err
	}
	return listLayer(
		ctx,
		cache,
		of,
		[]any{of.Compression, of.Time.Unix(), oci.HashOf(data).String()},
		func(*progress.Step) (List, error) { return list, nil },
	)
}

func listLayer(
	ctx context.Context,
	cache layer.Cache,
	of layer.Spec,
	inputs []any,
	list func(*progress.Step) (List, error),
) (made v1.Layer, digest string, err error) {
	of.Single = true
	of.Key = layer.Key("file list", inputs...)
	made, err = cache.Make(
		ctx,
		of,
		func(_ context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
			all, err := list(step)
			if err != nil {
				return nil, err
			}
			data, err := all.Encode()
			if err != nil {
				return nil, err
			}
			// the folders that are there, whose modes the layer must not change
			lower := rootfs.New(spool, nil)
			for _, f := range all.Files {
				if f.Kind == rootfs.Dir && recipe.InFolder(path.Dir(recipe.FileList)+"/", f.Path) {
					if err := lower.AddDir(f.Path, f.Mode); err != nil {
						return nil, err
					}
				}
			}
			tree := rootfs.New(spool, lower)
			return tree, tree.AddBytes(recipe.FileList, 0o644, data)
		},
	)
	if err != nil {
		return nil, "", err
	}
	digest = layer.Annotation(made, recipe.LabelFiles)
	if digest != "" {
		return made, digest, nil
	}
	_, digest, err = FromLayer(ctx, cache, made)
	if err != nil {
		return nil, "", err
	}
	return made, digest, cache.NoteFiles(made, digest)
}

// FromLayer is Read for a layer.
func FromLayer(
	ctx context.Context,
	cache layer.Cache,
	l v1.Layer,
) (list List, digest string, err error) {
	spool, err := rootfs.NewSpool(cache.Store.Dir())
	if err != nil {
		return list, "", err
	}
	defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
	tree := rootfs.New(spool, nil)
	if err := layer.Apply(ctx, tree, l, func(p string) bool { return p == recipe.FileList }, progress.Quiet(), LayerName); err != nil {
		return list, "", fmt.Errorf("read the layer with the list of files: %w", err)
	}
	return Read(tree)
}

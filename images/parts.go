package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// loaderCacheName is the name of the layer with the dynamic loader's cache.
const loaderCacheName = "loader cache"

func spec(r *recipe.Recipe, name, key string) layer.Spec {
	return layer.Spec{
		Target:      r.Target(),
		Arch:        r.Arch,
		Name:        name,
		Key:         key,
		Compression: r.Compression,
		Time:        r.Time(),
	}
}

// layer returns a layer of an image. It is the same for all images that make it from the same
// inputs.
func (b *Builder) layer(
	ctx context.Context,
	r *recipe.Recipe,
	name, kind string,
	inputs []any,
	fill layer.Fill,
) (v1.Layer, error) {
	return b.Layers().Make(ctx, spec(r, name, layer.Key(kind, inputs...)), fill)
}

// companionsLayer has the sources of the companions; nil if the image has none. All images with the
// same companions share it.
func (b *Builder) companionsLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	if len(r.Companions) == 0 {
		return nil, nil //nolint:nilnil // no layer is a result
	}
	inputs := []any{driver.CompanionsLayout, r.CompanionIDs(""), r.Compression, r.Epoch}
	work := func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		return driver.ReadCompanions(ctx, b.Env(), r, spool, step)
	}
	return b.layer(ctx, r, recipe.CompanionsLayer, "companions", inputs, work)
}

// fabricLayer has the driver's components; nil if the image has none. All systems with the same
// library folder share it.
func (b *Builder) fabricLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	if len(r.Fabric) == 0 {
		return nil, nil //nolint:nilnil // no layer is a result
	}
	inputs := []any{
		driver.FabricLayout,
		r.FabricDigests(),
		r.Driver,
		r.Arch,
		r.LibDir,
		r.Compression,
		r.Epoch,
	}
	l, err := b.layer(
		ctx,
		r,
		recipe.FabricLayer,
		"fabric",
		inputs,
		func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
			return driver.ReadFabric(ctx, b.Env(), r, spool, step)
		},
	)
	if err != nil {
		return nil, fmt.Errorf("components of driver %s: %w", r.Driver, err)
	}
	return l, nil
}

// loaderCacheLayer has the cache of the dynamic loader for the layers with libraries. Images that
// have these layers share it.
func (b *Builder) loaderCacheLayer(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	layers ...v1.Layer,
) (v1.Layer, error) {
	layers = slices.DeleteFunc(layers, func(l v1.Layer) bool { return l == nil })
	inputs := []any{r.Base.Digest, r.Distroless, r.Arch, r.LibDir, r.Compression, r.Epoch}
	for _, l := range layers {
		id, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, id.String())
	}
	work := func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		cache, err := b.loaderCache(ctx, r, base, layers, spool, step)
		if err != nil {
			return nil, err
		}
		tree := rootfs.New(spool, nil)
		return tree, tree.AddBytes(elffile.LoaderCachePath, 0o644, cache)
	}
	return b.layer(ctx, r, loaderCacheName, loaderCacheName, inputs, work)
}

// entrypointLayer has the programs of this project.
func (b *Builder) entrypointLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	links := [][2]string{
		{recipe.BinDir + "/" + recipe.EntrypointLink, recipe.EntrypointName},
		{recipe.BinDir + "/" + recipe.ToolkitLink, recipe.EntrypointName},
		{recipe.EvictLink, "../local/bin/" + recipe.EntrypointName},
	}
	inputs := []any{r.Entrypoint, links, r.Compression, r.Epoch}
	work := func(_ context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		for _, bin := range r.Entrypoint {
			if err := addProgram(tree, bin); err != nil {
				return nil, err
			}
		}
		for _, link := range links {
			if err := tree.AddLink(link[0], link[1]); err != nil {
				return nil, err
			}
		}
		return tree, nil
	}
	return b.layer(ctx, r, "entrypoint", "entrypoint", inputs, work)
}

func addProgram(tree *rootfs.Tree, bin recipe.Binary) (err error) {
	f, err := bounded.Open(bin.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	read := sha256.New()
	if err := tree.AddFile(recipe.BinDir+"/"+bin.Name, 0o755, info.Size(), io.TeeReader(f, read)); err != nil {
		return err
	}
	if hex.EncodeToString(read.Sum(nil)) != bin.SHA256 {
		return fmt.Errorf("%s changed during the build: run the same command again", bin.Path)
	}
	return nil
}

// omitted returns which companions the layers with modules do not have, with the reasons, as the
// image's label has them: "nvidia-fs for 6.1.0-56-amd64 (open): error: ...". It is empty if there
// are none.
func (b *Builder) omitted(
	ctx context.Context,
	r *recipe.Recipe,
	modules []namedLayer,
) (string, error) {
	if len(r.Companions) == 0 {
		return "", nil
	}
	var all []string
	step := b.Observe.Begin(r.Target(), "companions")
	for _, l := range modules {
		manifests, err := kernelmodules.Manifests(ctx, b.Store, l.layer)
		if err != nil {
			return "", step.End(false, fmt.Errorf("%s: %w", l.name, err))
		}
		for _, m := range manifests {
			for _, o := range m.Omitted {
				all = append(
					all,
					fmt.Sprintf(
						"%s for %s (%s): %s",
						o.Module,
						m.Key.Release,
						m.Key.Flavour,
						o.Reason,
					),
				)
			}
		}
	}
	slices.Sort(all)
	for _, line := range all {
		step.Note("left out: " + line)
	}
	return strings.Join(all, "; "), step.End(false, nil)
}

package layer

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Outline reads layers, the bottom one first, into one tree that has the digests of all contents
// and not the contents. Each layer is read once in the life of the cache, which keeps its outline.
func (c Cache) Outline(
	ctx context.Context,
	layers []v1.Layer,
	step *progress.Step,
) (*rootfs.Tree, error) {
	tree := rootfs.New(rootfs.NoSpool(), nil)
	for i, l := range layers {
		members, err := c.members(ctx, l, step)
		if err == nil {
			err = tree.AddOutline(ctx, members)
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return tree, nil
}

func (c Cache) members(
	ctx context.Context,
	l v1.Layer,
	step *progress.Step,
) (members *rootfs.Members, err error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	return c.Outlines.Get(ctx, digest.String(), func() (*rootfs.Members, error) {
		outline, err := c.OutlineOf(ctx, l, step)
		if err != nil {
			return nil, err
		}
		err = read(ctx, outline, progress.Quiet(), outlineName, func(r io.Reader) (err error) {
			members, err = rootfs.ReadOutline(ctx, r)
			return err
		})
		return members, err
	})
}

// outlineName is the Name of the Spec of every outline.
const outlineName = "outline"

// outlineKey is the key of the outline of the layer with a digest.
func outlineKey(digest v1.Hash) string { return Key("outline 3", digest.String()) }

// OutlineOf returns the outline of a layer, which is a layer too. The layer is only read if neither
// the cache nor a registry has its outline.
func (c Cache) OutlineOf(ctx context.Context, l v1.Layer, step *progress.Step) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	key := outlineKey(digest)
	if outline, ok := c.Get(key); ok {
		return outline, nil
	}
	again := func(ctx context.Context) (v1.Layer, error) {
		return c.Making.Do(
			ctx,
			key,
			func() (v1.Layer, error) { return c.makeOutline(ctx, l, step, outlineName) },
		)
	}
	if outline, ok := c.Find(ctx, Spec{Name: outlineName, Key: key, Compression: recipe.Zstd, Single: true}, again, step); ok {
		return outline, nil
	}
	return again(ctx)
}

// makeOutline reads a layer and keeps its outline. name is for progress.
func (c Cache) makeOutline(
	ctx context.Context,
	l v1.Layer,
	step *progress.Step,
	name string,
) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	rec, err := c.compress(ctx, recipe.Zstd, 0, progress.Quiet(), func(w io.Writer) error {
		return read(
			ctx,
			l,
			step,
			name,
			func(r io.Reader) error { return rootfs.Outline(ctx, r, w) },
		)
	})
	if err != nil {
		return nil, err
	}
	return c.note(outlineKey(digest), rec)
}

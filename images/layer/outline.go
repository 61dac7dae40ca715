package layer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Outline reads layers, the bottom one first, into one tree that has the digests of all contents and not the
// contents. Each layer is read once in the life of the cache, which keeps its outline.
func (c Cache) Outline(ctx context.Context, layers []v1.Layer, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
	tree := rootfs.New(spool, nil)
	for i, l := range layers {
		if err := c.applyOutline(ctx, tree, l, step); err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return tree, nil
}

func (c Cache) applyOutline(ctx context.Context, tree *rootfs.Tree, l v1.Layer, step *progress.Step) (err error) {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	key, err := Key("outline", digest.String())
	if err != nil {
		return err
	}
	outline, ok := c.Get(key)
	if !ok {
		outline, err = Once(ctx, c.Running, key, func() (v1.Layer, error) {
			return c.write(ctx, Spec{Key: key, Compression: recipe.Zstd}, 0, step, func(w io.Writer) error { return writeOutline(ctx, l, w) })
		})
		if err != nil {
			return err
		}
	}
	r, err := outline.Uncompressed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return tree.ApplyOutline(ctx, bufio.NewReaderSize(r, 256<<10))
}

func writeOutline(ctx context.Context, l v1.Layer, w io.Writer) (err error) {
	r, err := Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buffered := bufio.NewReaderSize(r, 256<<10)
	if err := rootfs.Outline(ctx, buffered, w); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
	return err
}

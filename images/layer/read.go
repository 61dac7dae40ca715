package layer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Flatten reads all layers of an image into one tree; keep as in rootfs.Tree.Apply.
func Flatten(ctx context.Context, img v1.Image, spool *rootfs.Spool, keep func(string) bool, step *progress.Step) (*rootfs.Tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the layers: %w", err)
	}
	tree := rootfs.New(spool, nil)
	for i, l := range layers {
		if err := Apply(ctx, tree, l, keep, step); err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return tree, nil
}

// Apply lays one layer over a tree.
func Apply(ctx context.Context, tree *rootfs.Tree, l v1.Layer, keep func(string) bool, step *progress.Step) (err error) {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(io.TeeReader(r, step.Meter(ctx, digest.Hex[:12], 0)), 256<<10)
	if err := tree.Apply(ctx, buffered, keep); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
	return err
}

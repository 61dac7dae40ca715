package layer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

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

func (c Cache) applyOutline(ctx context.Context, tree *rootfs.Tree, l v1.Layer, step *progress.Step) error {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	members, err := c.Outlines.get(digest, func() (*rootfs.Members, error) { return c.readOutline(ctx, l, step) })
	if err != nil {
		return err
	}
	return tree.AddOutline(ctx, members)
}

func (c Cache) readOutline(ctx context.Context, l v1.Layer, step *progress.Step) (members *rootfs.Members, err error) {
	outline, err := c.OutlineOf(ctx, l, step)
	if err != nil {
		return nil, err
	}
	err = read(ctx, outline, noStep, OutlineName, func(r io.Reader) (err error) {
		members, err = rootfs.ReadOutline(ctx, r)
		return err
	})
	return members, err
}

// OutlineName is the Name of the Spec of every outline.
const OutlineName = "outline"

// OutlineKey is the key of the outline of the layer with a digest.
func OutlineKey(digest v1.Hash) (string, error) { return Key("outline 2", digest.String()) }

// OutlineOf returns the outline of a layer, which is a layer too. The layer is only read if neither the cache
// nor a registry has its outline.
func (c Cache) OutlineOf(ctx context.Context, l v1.Layer, step *progress.Step) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	key, err := OutlineKey(digest)
	if err != nil {
		return nil, err
	}
	if outline, ok := c.Get(key); ok {
		return outline, nil
	}
	read := func(ctx context.Context) (v1.Layer, error) {
		return c.once(ctx, key, func() (v1.Layer, error) { return c.makeOutline(ctx, nil, l, nil, step, "outline") })
	}
	if outline, ok := c.FromRemote(ctx, outlineSpec(key), read, step); ok {
		return outline, nil
	}
	return read(ctx)
}

func outlineSpec(key string) Spec {
	return Spec{Name: OutlineName, Key: key, Compression: recipe.Zstd, Single: true}
}

// makeOutline lays a layer over a tree, which may be nil, and keeps the outline of what it reads.
func (c Cache) makeOutline(
	ctx context.Context, tree *rootfs.Tree, l v1.Layer, keep func(string) bool, step *progress.Step, name string,
) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	key, err := OutlineKey(digest)
	if err != nil {
		return nil, err
	}
	rec, err := c.compress(ctx, recipe.Zstd, 0, noStep, func(w io.Writer) error {
		return read(ctx, l, step, name, func(r io.Reader) error { return tree.ApplyOutlined(ctx, r, keep, w) })
	})
	if err != nil {
		return nil, err
	}
	return c.note(key, rec)
}

// Outlines keeps the outlines that were read last, because the images of one call share most layers. That of a toolchain
// of 9,000 files takes about 3 MB. The zero value is empty and ready; nil keeps none.
type Outlines struct {
	mu   sync.Mutex
	kept []keptOutline // the last one was needed last
}

const outlinesKept = 12

type keptOutline struct {
	digest  v1.Hash // of the layer
	members *rootfs.Members
}

// get returns the outline of a layer, which read reads if it is not kept.
func (o *Outlines) get(digest v1.Hash, read func() (*rootfs.Members, error)) (*rootfs.Members, error) {
	if o == nil {
		return read()
	}
	o.mu.Lock()
	i := slices.IndexFunc(o.kept, func(k keptOutline) bool { return k.digest == digest })
	var members *rootfs.Members
	if i >= 0 {
		members = o.kept[i].members
	}
	o.mu.Unlock()
	if members == nil {
		var err error
		if members, err = read(); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = slices.DeleteFunc(o.kept, func(k keptOutline) bool { return k.digest == digest })
	o.kept = append(o.kept, keptOutline{digest, members})
	o.kept = slices.Delete(o.kept, 0, max(0, len(o.kept)-outlinesKept))
	return members, nil
}

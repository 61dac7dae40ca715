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

func (c Cache) applyOutline(ctx context.Context, tree *rootfs.Tree, l v1.Layer, step *progress.Step) error {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	members := c.Outlines.get(digest)
	if members == nil {
		if members, err = c.readOutline(ctx, l, step); err != nil {
			return err
		}
		c.Outlines.add(digest, members)
	}
	return tree.AddOutline(ctx, members)
}

func (c Cache) readOutline(ctx context.Context, l v1.Layer, step *progress.Step) (members *rootfs.Members, err error) {
	outline, err := c.OutlineOf(ctx, l, step)
	if err != nil {
		return nil, err
	}
	r, err := Open(outline)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return rootfs.ReadOutline(ctx, bufio.NewReaderSize(r, 256<<10))
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
		return Once(ctx, c.Running, key, func() (v1.Layer, error) { return c.makeOutline(ctx, l, step) })
	}
	if outline, ok := c.Borrow(ctx, outlineSpec(key), read, step); ok {
		return outline, nil
	}
	return read(ctx)
}

func outlineSpec(key string) Spec {
	return Spec{Name: OutlineName, Key: key, Compression: recipe.Zstd, Single: true}
}

// makeOutline reads a layer to its end.
func (c Cache) makeOutline(ctx context.Context, l v1.Layer, step *progress.Step) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	key, err := OutlineKey(digest)
	if err != nil {
		return nil, err
	}
	return c.write(ctx, outlineSpec(key), step, func(w io.Writer) error { return writeOutline(ctx, l, w) })
}

func writeOutline(ctx context.Context, l v1.Layer, w io.Writer) (err error) {
	r, err := Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return outline(ctx, r, w)
}

func outline(ctx context.Context, content io.Reader, w io.Writer) error {
	buffered := bufio.NewReaderSize(content, 256<<10)
	if err := rootfs.Outline(ctx, buffered, w); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
	return err
}

// outlining makes the outline of a layer that is being written or read. It never fails that: OutlineOf reads
// the layer if its outline is missing, and reports what is wrong with it.
type outlining struct {
	io.Writer

	cache   Cache
	content *io.PipeWriter
	done    chan struct{}
	rec     Record
	err     error
}

func (c Cache) beginOutline(ctx context.Context) *outlining {
	r, w := io.Pipe()
	o := &outlining{Writer: w, cache: c, content: w, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		unseen := progress.Observer(nil).Begin("", "")
		o.rec, o.err = c.compress(ctx, recipe.Zstd, 0, unseen, func(w io.Writer) error { return outline(ctx, r, w) })
		_, _ = io.Copy(io.Discard, r) // the layer is written to its end
	}()
	return o
}

// end waits for the outline and notes it, unless the layer with the digest failed, whose error it returns.
func (o *outlining) end(failed error, digest v1.Hash) error {
	_ = o.content.CloseWithError(failed) // never fails
	<-o.done
	if failed != nil || o.err != nil {
		return failed
	}
	key, err := OutlineKey(digest)
	if err != nil {
		return err
	}
	return o.cache.note(key, o.rec)
}

// outlined calls read, which reads a layer to its end, and makes the layer's outline of what it reads, unless
// the cache has it.
func (c Cache) outlined(ctx context.Context, l v1.Layer, read func(v1.Layer) error) error {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	key, err := OutlineKey(digest)
	if err != nil {
		return err
	}
	if _, ok := c.Get(key); ok {
		return read(l)
	}
	outline := c.beginOutline(ctx)
	return outline.end(read(teedLayer{l, outline}), digest)
}

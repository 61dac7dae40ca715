// Package layer makes the layers of images and keeps them in the cache by the digest of what they are made
// from. It knows neither recipes nor what is in a layer.
package layer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Record is what is known of a finished layer: the value of the cache's record under its key.
type Record struct {
	Digest    v1.Hash         `json:"digest"`
	DiffID    v1.Hash         `json:"diffID"`
	Size      int64           `json:"size"`
	MediaType types.MediaType `json:"mediaType"`
	Files     string          `json:"files,omitempty"` // of the layer with the list of files: the digest of the list
}

// storedLayer is a v1 layer whose compressed bytes are in the store.
type storedLayer struct {
	Record
	key   string
	store *fetch.Store
}

func (l *storedLayer) Digest() (v1.Hash, error)            { return l.Record.Digest, nil }
func (l *storedLayer) DiffID() (v1.Hash, error)            { return l.Record.DiffID, nil }
func (l *storedLayer) Size() (int64, error)                { return l.Record.Size, nil }
func (l *storedLayer) MediaType() (types.MediaType, error) { return l.Record.MediaType, nil }
func (l *storedLayer) Compressed() (io.ReadCloser, error) {
	return l.store.Open(l.Record.Digest.Hex)
}
func (l *storedLayer) Uncompressed() (io.ReadCloser, error) {
	full, err := partial.CompressedToLayer(l)
	if err != nil {
		return nil, err
	}
	return full.Uncompressed()
}

// Cache keeps finished layers by the digest of their inputs.
type Cache struct {
	Store   *fetch.Store
	Making  *Once[v1.Layer] // layers in the making, by key, and errors of those that could not be made; nil: nobody waits
	Observe progress.Observer
	// Outlines are kept from one image to the next; nil: they are not.
	Outlines *Outlines
	// Remote finds finished layers in registries; nil: there are none.
	Remote func(Spec) (*Remote, bool)
	// Unverified says that Remote takes layers from images that nobody signed. What is made then has records of its
	// own, so that a build that signs never takes it.
	Unverified bool
}

// Spec says which layer of which image is to be made. Its bytes depend on Key, which covers its content,
// Compression and Time.
type Spec struct {
	Target      string // of the image, for progress: "535.261.03-debian12 amd64"
	Arch        string // of the image
	Name        string
	Key         string
	Single      bool // no other image has it
	NoOutline   bool // its outline is made only if something asks for it
	Compression recipe.Compression
	Time        time.Time // of all files
}

// Fill makes the content of a layer, with the contents of its files in the spool.
type Fill func(context.Context, *rootfs.Spool, *progress.Step) (*rootfs.Tree, error)

// Key is the cache key of a layer, or of another result: the digest of what it is made from. Two images that
// agree on these inputs share it.
func Key(kind string, inputs ...any) (string, error) {
	b, err := json.Marshal([]any{recipe.Version, kind, inputs})
	if err != nil {
		return "", fmt.Errorf("cache key of the %s layer: %w", kind, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Kinds of records of layers.
const (
	verifiedRecord   = "layer"
	unverifiedRecord = "unverified"
)

// Get returns the layer of a key when record and blob are both there. A record that cannot be read counts as
// missing, and so does a blob of another size, which is removed.
func (c Cache) Get(key string) (v1.Layer, bool) {
	var rec Record
	_, ok := c.Store.Lookup(verifiedRecord, key, &rec)
	if !ok && c.Unverified {
		_, ok = c.Store.Lookup(unverifiedRecord, key, &rec)
	}
	return &storedLayer{rec, key, c.Store}, ok && rec.isIn(c.Store)
}

// isIn says whether a store has the layer. It removes a blob of another size, which something damaged.
func (r Record) isIn(store *fetch.Store) bool {
	if !store.Has(r.Digest.Hex) {
		return false
	}
	info, err := os.Stat(store.Path(r.Digest.Hex))
	if err == nil && info.Size() != r.Size {
		_ = os.Remove(store.Path(r.Digest.Hex)) // if that fails, writing the blob again fails too, and says why
	}
	return err == nil && info.Size() == r.Size
}

// Make returns the layer of a specification, from the cache or made by fill. When several callers request the
// same layer at the same time, one makes it and the others wait.
func (c Cache) Make(ctx context.Context, of Spec, fill Fill) (v1.Layer, error) {
	step := c.Observe.Await(of.Target, of.Name+" layer")
	if l, ok := c.Get(of.Key); ok {
		return l, step.End(true, nil)
	}
	again := func(ctx context.Context) (v1.Layer, error) {
		return c.fill(ctx, of, fill, c.Observe.Await(of.Target, of.Name+" layer"))
	}
	if l, ok := c.FromRemote(ctx, of, again, step); ok {
		return l, step.End(true, nil)
	}
	return c.fill(ctx, of, fill, step)
}

// fill makes a layer, unless another caller is at it, and ends the step.
func (c Cache) fill(ctx context.Context, of Spec, fill Fill, step *progress.Step) (v1.Layer, error) {
	waited := true
	made, err := c.once(ctx, of.Key, func() (v1.Layer, error) {
		waited = false
		spool, err := rootfs.NewSpool(c.Store.Dir())
		if err != nil {
			return nil, err
		}
		defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
		tree, err := fill(ctx, spool, step)
		if err != nil {
			return nil, err
		}
		return c.Write(ctx, of, tree, step)
	})
	if err != nil {
		return nil, step.End(false, fmt.Errorf("%s layer: %w", of.Name, err))
	}
	return made, step.End(waited, nil)
}

func (c Cache) once(ctx context.Context, key string, f func() (v1.Layer, error)) (v1.Layer, error) {
	if c.Making == nil {
		return f()
	}
	return c.Making.Do(ctx, key, f)
}

// Write compresses a tree and notes the result in the cache. At the same time it makes the layer's outline, so that the
// layer need not be read for it.
func (c Cache) Write(ctx context.Context, of Spec, tree *rootfs.Tree, step *progress.Step) (made v1.Layer, err error) {
	eg, ectx := errgroup.WithContext(ctx)
	var rec, outline Record
	eg.Go(func() (err error) {
		rec, err = c.compress(ectx, of.Compression, tree.Bytes(), step, func(w io.Writer) error { return tree.WriteTar(ectx, w, of.Time) })
		return err
	})
	if !of.NoOutline {
		eg.Go(func() (err error) {
			outline, err = c.compress(ectx, recipe.Zstd, 0, noStep, func(w io.Writer) error { return tree.WriteOutline(ectx, w) })
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	if !of.NoOutline {
		key, err := OutlineKey(rec.Digest)
		if err == nil {
			_, err = c.note(key, outline)
		}
		if err != nil {
			return nil, err
		}
	}
	return c.note(of.Key, rec)
}

// noStep is a step that nobody sees.
var noStep = progress.Observer(nil).Begin("", "")

// note writes the record of a finished layer.
func (c Cache) note(key string, rec Record) (v1.Layer, error) {
	kind := verifiedRecord
	if c.Unverified {
		kind = unverifiedRecord
	}
	return &storedLayer{rec, key, c.Store}, c.Store.Note(kind, key, rec.Digest.Hex, rec)
}

// NoteFiles notes the digest of the list of files that a layer has, so that it need not be read for it again.
func (c Cache) NoteFiles(l v1.Layer, digest string) error {
	stored, ok := l.(*storedLayer)
	if !ok {
		return nil
	}
	rec := stored.Record
	rec.Files = digest
	_, err := c.note(stored.key, rec)
	return err
}

// compress writes a tar stream of about total bytes into the store. Tar, both digests and the compressor run at the same
// time.
func (c Cache) compress(
	ctx context.Context, with recipe.Compression, total int64, step *progress.Step, content func(io.Writer) error,
) (rec Record, err error) {
	blob, err := c.Store.Create()
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	z, err := newCompressor(with, blob, runtime.GOMAXPROCS(0))
	if err != nil {
		return rec, err
	}
	diff := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(step.Meter(ctx, "compress", total), diff, z), 1<<20)
	if err := content(out); err != nil {
		return rec, errors.Join(err, z.Close())
	}
	if err := errors.Join(out.Flush(), z.Close()); err != nil {
		return rec, fmt.Errorf("compress the layer: %w", err)
	}
	sum, size, err := blob.Commit()
	if err != nil {
		return rec, err
	}
	return Record{
		Digest:    v1.Hash{Algorithm: "sha256", Hex: sum},
		DiffID:    v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(diff.Sum(nil))},
		Size:      size,
		MediaType: mediaType(with),
	}, nil
}

// Package layer makes the layers of images and keeps them in the cache by the digest of what they are made
// from. It knows neither recipes nor what is in a layer.
package layer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/singleflight"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Record is what is known of a finished layer. cache/layers/<key>.json names the blob that these inputs gave.
type Record struct {
	Digest    v1.Hash         `json:"digest"`
	DiffID    v1.Hash         `json:"diffID"`
	Size      int64           `json:"size"`
	MediaType types.MediaType `json:"mediaType"`
	Files     string          `json:"files,omitempty"` // of the layer with the list of files: the digest of the list
}

// noted is a record as it is in the cache.
type noted struct {
	Record
	// Sum is the check of the others, so that a damaged record counts as missing; "": an earlier version
	// wrote it.
	Sum string `json:"sum,omitempty"`
}

// check is the digest of a record under a key.
func (r Record) check(key string) string {
	all := []string{key, r.Digest.String(), r.DiffID.String(), strconv.FormatInt(r.Size, 10), string(r.MediaType)}
	if r.Files != "" {
		all = append(all, r.Files)
	}
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	return hex.EncodeToString(sum[:8])
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
	Running *singleflight.Group // layers in the making, by key
	Observe progress.Observer
	Failed  *Failures // of this call; nil: every caller tries again
	// Outlines and Compressors are kept from one layer to the next; nil: they are not.
	Outlines    *Outlines
	Compressors *Compressors

	Records string // folder below that of the store with the names of finished layers; "": layers

	// Elsewhere finds finished layers in registries; nil: there are none.
	Elsewhere func(Spec) (*Borrowed, bool)
	// Unverified says that Elsewhere takes layers from images that nobody signed. What is made then is noted in
	// a folder of its own, so that a build that signs never takes it.
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

// unverifiedRecords is the folder for what is made while layers come from images that nobody signed.
const unverifiedRecords = "layers-unverified"

func (c Cache) folder() string {
	if c.Unverified {
		return unverifiedRecords
	}
	return cmp.Or(c.Records, "layers")
}

// Get returns the layer of a key when record and blob are both there. A record that cannot be read counts as
// missing, and so does a blob of another size, which is removed.
func (c Cache) Get(key string) (v1.Layer, bool) {
	if l, ok := c.read(cmp.Or(c.Records, "layers"), key); ok || !c.Unverified {
		return l, ok
	}
	return c.read(unverifiedRecords, key)
}

func (c Cache) read(folder, key string) (v1.Layer, bool) {
	b, err := os.ReadFile(filepath.Join(c.Store.Dir(), folder, key+".json"))
	if err != nil {
		return nil, false
	}
	var rec noted
	if json.Unmarshal(b, &rec) != nil || rec.Sum != "" && rec.Sum != rec.check(key) || !rec.isIn(c.Store) {
		return nil, false
	}
	return &storedLayer{rec.Record, key, c.Store}, true
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
	if l, ok := c.Borrow(ctx, of, again, step); ok {
		return l, step.End(true, nil)
	}
	return c.fill(ctx, of, fill, step)
}

// fill makes a layer, unless another caller is at it, and ends the step.
func (c Cache) fill(ctx context.Context, of Spec, fill Fill, step *progress.Step) (v1.Layer, error) {
	waited := true
	made, err := c.once(ctx, of, func() (v1.Layer, error) {
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

// once makes a layer that nothing in this call has failed to make.
func (c Cache) once(ctx context.Context, of Spec, f func() (v1.Layer, error)) (v1.Layer, error) {
	if err := c.Failed.Of(of.Key); err != nil {
		return nil, err
	}
	made, err := Once(ctx, c.Running, of.Key, f)
	return made, c.Failed.Add(ctx, of.Key, err)
}

// Write compresses a tree and notes the result in the cache. It makes the layer's outline of the same stream,
// so that the layer need not be read for it.
func (c Cache) Write(ctx context.Context, of Spec, tree *rootfs.Tree, step *progress.Step) (v1.Layer, error) {
	content := func(w io.Writer) error { return tree.WriteTar(ctx, w, of.Time) }
	if of.NoOutline {
		return c.write(ctx, of, step, content)
	}
	outline := c.beginOutline(ctx)
	rec, err := c.compress(ctx, of.Compression, tree.Bytes(), step, content, outline)
	if err := outline.end(err, rec.Digest); err != nil {
		return nil, err
	}
	return c.noted(of.Key, rec)
}

// write compresses the tar stream that content writes and notes the result in the cache.
func (c Cache) write(ctx context.Context, of Spec, step *progress.Step, content func(io.Writer) error) (v1.Layer, error) {
	rec, err := c.compress(ctx, of.Compression, 0, step, content)
	if err != nil {
		return nil, err
	}
	return c.noted(of.Key, rec)
}

func (c Cache) noted(key string, rec Record) (v1.Layer, error) {
	if err := c.note(key, rec); err != nil {
		return nil, err
	}
	return &storedLayer{rec, key, c.Store}, nil
}

// note writes the record of a finished layer.
func (c Cache) note(key string, rec Record) error {
	b, err := json.Marshal(noted{rec, rec.check(key)})
	if err != nil {
		return err
	}
	return c.Store.WriteFile(filepath.Join(c.folder(), key+".json"), b)
}

// NoteFiles notes the digest of the list of files that a layer has, so that it need not be read for it again.
func (c Cache) NoteFiles(l v1.Layer, digest string) error {
	stored, ok := l.(*storedLayer)
	if !ok {
		return nil
	}
	rec := stored.Record
	rec.Files = digest
	return c.note(stored.key, rec)
}

// compress writes a tar stream of about total bytes into the store, and to others. Tar, both digests and the
// compressor run at the same time.
func (c Cache) compress(
	ctx context.Context, with recipe.Compression, total int64, step *progress.Step, content func(io.Writer) error, others ...io.Writer,
) (rec Record, err error) {
	blob, err := c.Store.Create()
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	z, err := c.Compressors.get(with, blob)
	if err != nil {
		return rec, err
	}
	diff := sha256.New()
	count := step.Meter(ctx, "compress", total)
	out := c.Compressors.buffer(io.MultiWriter(append(others, count, diff, z)...))
	if err := content(out); err != nil {
		return rec, errors.Join(err, z.Close())
	}
	if err := errors.Join(out.Flush(), z.Close()); err != nil {
		return rec, fmt.Errorf("compress the layer: %w", err)
	}
	c.Compressors.put(with, z, out)
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

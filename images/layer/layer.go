// Package layer makes the layers of images and keeps them in the cache by the digest of what they
// are made from. It knows neither recipes nor what is in a layer.
//
// Registries are a cache of layers too. The manifest of a pushed image says of each layer from
// which key it was made ([recipe.LabelKey]), and tags named layer-KEY lead from keys to images. A
// [Finder] finds finished layers in this way, so that a build on an empty machine makes, downloads
// and sends only what is new; [Finder.Publish] adds the tags. It trusts no registry: content counts
// by its digest, and with keys only what an image says that one of them signed.
package layer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

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
}

// Cache keeps finished layers by the digest of their inputs.
type Cache struct {
	Store   *fetch.Store
	Observe progress.Observer
	// layers in the making, by key, and errors of those that could not be made; nil: nobody waits
	Making *Once[v1.Layer]
	Finder *Finder // finds finished layers in registries; nil: there are none
	// gets the diff ID and the content of each layer that was written; may be nil
	Written func(v1.Hash, *rootfs.Tree) error
}

// Spec says which layer of which image is to be made. Its bytes depend on Key, which covers its
// content, Compression and Time.
type Spec struct {
	Target string // of the image, for progress: "535.261.03-debian12 amd64"
	Arch   string // of the image
	Name   string
	Key    string
	// key of the content without its compression, of a layer that is dear to make; "": it is made
	// again
	Content     string
	Single      bool // no other image has it
	Compression recipe.Compression
	Time        time.Time // of all files
}

// Fill makes the content of a layer, with the contents of its files in the spool.
type Fill func(context.Context, *rootfs.Spool, *progress.Step) (*rootfs.Tree, error)

// Key is the cache key of a layer, or of another result: the digest of what it is made from. Two
// images that agree on these inputs, which are plain data, share it.
func Key(kind string, inputs ...any) string {
	inputs = slices.Clone(inputs)
	for i, input := range inputs {
		if input == any(recipe.Zstd) {
			inputs[i] = "zstd 2" // the number counts changes of newCompressor
		}
	}
	b, err := json.Marshal([]any{recipe.Version, kind, inputs})
	if err != nil {
		panic(err) //nolint:forbidigo // inputs that JSON does not have: a mistake in this program, which every build shows
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Kinds of records of layers. What is made while layers of images that nobody signed are used has
// records of its own, so that a build that signs never takes it.
const (
	verifiedRecord   = "layer"
	unverifiedRecord = "unverified"
)

func (c Cache) unverified() bool { return c.Finder != nil && !c.Finder.Verifies() }

// Get returns the layer of a key when record and blob are both there. A record that cannot be read
// counts as missing, and so does a blob of another size.
func (c Cache) Get(key string) (v1.Layer, bool) {
	var rec Record
	_, ok := c.Store.Lookup(verifiedRecord, key, &rec)
	if !ok && c.unverified() {
		_, ok = c.Store.Lookup(unverifiedRecord, key, &rec)
	}
	return &stored{Record: rec, key: key, store: c.Store}, ok && rec.isIn(c.Store)
}

// isIn says whether a store has the layer. It removes a blob that something damaged, which has
// another size.
func (r Record) isIn(store *fetch.Store) bool {
	if !store.Has(r.Digest.Hex) {
		return false
	}
	info, err := os.Stat(store.Path(r.Digest.Hex))
	if err == nil && info.Size() != r.Size {
		// the record may be wrong instead; if the removal fails, writing the blob again says why
		_, _ = store.RemoveDamaged(r.Digest.Hex)
	}
	return err == nil && info.Size() == r.Size
}

// Make returns the layer of a specification, from the cache or made by fill. When several callers
// request the same layer at the same time, one makes it and the others wait.
func (c Cache) Make(ctx context.Context, of Spec, fill Fill) (v1.Layer, error) {
	step := c.Observe.Await(of.Target, of.Name+" layer")
	if l, ok := c.Get(of.Key); ok {
		return l, step.End(true, nil)
	}
	again := func(ctx context.Context) (v1.Layer, error) {
		return c.fill(ctx, of, fill, c.Observe.Await(of.Target, of.Name+" layer"))
	}
	if l, ok := c.Find(ctx, of, again, step); ok {
		return l, step.End(true, nil)
	}
	return c.fill(ctx, of, fill, step)
}

// fill makes a layer, unless another caller is at it, and ends the step.
func (c Cache) fill(
	ctx context.Context,
	of Spec,
	fill Fill,
	step *progress.Step,
) (v1.Layer, error) {
	waited := true
	made, err := c.Making.Do(ctx, of.Key, func() (v1.Layer, error) {
		waited = false
		spool, err := rootfs.NewSpool(c.Store.Dir())
		if err != nil {
			return nil, err
		}
		defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
		if again, ok := c.recompress(ctx, of, step); ok {
			return again, nil
		}
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

// Write compresses a tree and notes the result in the cache.
func (c Cache) Write(
	ctx context.Context,
	of Spec,
	tree *rootfs.Tree,
	step *progress.Step,
) (v1.Layer, error) {
	rec, err := c.compress(ctx, of.Compression, tree.Bytes(), step, func(w io.Writer) error {
		return tree.WriteTar(ctx, w, of.Time)
	})
	if err != nil {
		return nil, err
	}
	if c.Written != nil {
		err = c.Written(rec.DiffID, tree)
		if err != nil {
			return nil, err
		}
	}
	if of.Content != "" {
		_, err = c.note(of.Content, rec)
		if err != nil {
			return nil, err
		}
	}
	return c.note(of.Key, rec)
}

// recompress makes a layer of one with the same content that the cache has in another compression.
// If that one cannot be read, the layer is made from its inputs.
func (c Cache) recompress(ctx context.Context, of Spec, step *progress.Step) (v1.Layer, bool) {
	other, ok := c.Get(of.Content)
	if of.Content == "" || !ok {
		return nil, false
	}
	rec, err := c.compress(ctx, of.Compression, 0, progress.Quiet(), func(w io.Writer) error {
		return read(ctx, other, step, of.Name, func(r io.Reader) error {
			_, err := io.Copy(w, rootfs.Cancellable(ctx, r))
			return err
		})
	})
	if err != nil {
		step.Note(
			fmt.Sprintf(
				"the %s layer is made again, because what the cache has cannot be used: %v",
				of.Name,
				err,
			),
		)
		return nil, false
	}
	made, err := c.note(of.Key, rec)
	return made, err == nil
}

// note writes the record of a finished layer.
func (c Cache) note(key string, rec Record) (v1.Layer, error) {
	kind := verifiedRecord
	if c.unverified() {
		kind = unverifiedRecord
	}
	return &stored{
		Record: rec,
		key:    key,
		store:  c.Store,
	}, c.Store.Note(kind, key, rec.Digest.Hex, rec)
}

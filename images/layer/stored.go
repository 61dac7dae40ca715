package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
)

// stored is a layer whose compressed bytes are in the store. One that was found in a registry is
// downloaded when its content is read for the first time. If the registry's copy is damaged or
// gone, the layer is made here after all.
type stored struct {
	Record
	key   string
	store *fetch.Store
	found *found                                  // in a registry; nil: made here
	again func(context.Context) (v1.Layer, error) // makes it
}

func (l *stored) Digest() (v1.Hash, error)            { return l.Record.Digest, nil }
func (l *stored) DiffID() (v1.Hash, error)            { return l.Record.DiffID, nil }
func (l *stored) Size() (int64, error)                { return l.Record.Size, nil }
func (l *stored) MediaType() (types.MediaType, error) { return l.Record.MediaType, nil }

// Descriptor is that in the manifest of the image that the layer was found in.
func (l *stored) Descriptor() (*v1.Descriptor, error) {
	d := &v1.Descriptor{MediaType: l.Record.MediaType, Size: l.Record.Size, Digest: l.Record.Digest}
	if l.found != nil {
		d.Annotations = maps.Clone(l.found.Annotations)
	}
	return d, nil
}

func (l *stored) Compressed() (io.ReadCloser, error) {
	if l.found != nil && !l.isIn(l.store) {
		if err := l.bring(l.found.finder.ctx); err != nil {
			return nil, err
		}
	}
	return l.store.Open(l.Record.Digest.Hex)
}

func (l *stored) Uncompressed() (io.ReadCloser, error) {
	r, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	return oci.Decompress(r)
}

// bring downloads the layer, or else makes it.
func (l *stored) bring(ctx context.Context) error {
	err := l.found.fetch(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	made, failed := l.again(ctx)
	if failed != nil {
		return errors.Join(err, failed)
	}
	if digest, failed := made.Digest(); failed != nil || digest != l.Record.Digest {
		return errors.Join(
			err,
			failed,
			fmt.Errorf(
				"the registry names the layer %s, and its inputs give %s: build again with --cache-from none",
				l.Record.Digest,
				digest,
			),
		)
	}
	return nil
}

// Find returns a layer from a registry that has it. again makes the layer; it is called only if the
// registry turns out not to have the content.
func (c Cache) Find(
	ctx context.Context,
	of Spec,
	again func(context.Context) (v1.Layer, error),
	step *progress.Step,
) (v1.Layer, bool) {
	if c.Finder == nil {
		return nil, false
	}
	f := c.Finder.find(of)
	if f == nil || f.MediaType != mediaType(of.Compression) || f.name != of.Name {
		return nil, false
	}
	l := &stored{f.record(), of.Key, c.Store, f, again}
	if f.needed {
		if err := c.download(ctx, l, step); err != nil {
			step.Note(
				fmt.Sprintf(
					"the %s layer is made here, because the registry's copy cannot be used: %v",
					of.Name,
					err,
				),
			)
			return nil, false
		}
	}
	return l, true
}

// download downloads a layer. If nobody vouches for what its image says, download reads the layer
// once, because the digest of its content goes into the image, and notes it like a layer that was
// made here.
func (c Cache) download(ctx context.Context, l *stored, step *progress.Step) error {
	if !l.isIn(l.store) {
		if err := l.found.fetch(ctx); err != nil {
			return err
		}
	}
	if c.Finder.Verifies() {
		return nil
	}
	err := read(ctx, l, step, l.found.name, func(io.Reader) error { return nil })
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.Record.Digest, err)
	}
	_, err = c.note(l.key, l.Record)
	return err
}

// Keyed adds the key of a layer, if it was made from one, to what the manifest of an image says of
// it, so that a later build finds the layer.
func Keyed(l v1.Layer, annotations map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, annotations)
	made, ok := l.(*stored)
	if ok {
		all[recipe.LabelKey] = made.key
	}
	return all
}

package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
)

// Remote is a finished layer that a registry has.
type Remote struct {
	Record
	Name        string            // in the history of its image: "packages"
	Annotations map[string]string // of the layer in the manifest of its image
	Needed      bool              // its content is going to be read
	Verified    bool              // a trusted key signed its image
	// Fetch brings the blob into the store, verified.
	Fetch func(context.Context) error
	// Context lasts as long as images are read, which is longer than their build.
	Context func() context.Context
}

// remoteLayer is a layer that is downloaded when its content is read for the first time. If the registry's
// copy is damaged or gone, the layer is made here after all.
type remoteLayer struct {
	storedLayer
	from  *Remote
	again func(context.Context) (v1.Layer, error)
}

// FromRemote returns a layer from a registry that has it. again makes the layer; FromRemote calls it only if the
// registry turns out not to have the content.
func (c Cache) FromRemote(
	ctx context.Context, of Spec, again func(context.Context) (v1.Layer, error), step *progress.Step,
) (v1.Layer, bool) {
	if c.Remote == nil {
		return nil, false
	}
	from, ok := c.Remote(of)
	if !ok || from.MediaType != mediaType(of.Compression) || from.Name != of.Name {
		return nil, false
	}
	l := &remoteLayer{storedLayer{from.Record, of.Key, c.Store}, from, again}
	if from.Needed {
		if err := c.download(ctx, l, step); err != nil {
			step.Note(fmt.Sprintf("the %s layer is made here, because the registry's copy cannot be used: %v", of.Name, err))
			return nil, false
		}
	}
	return l, true
}

// download downloads a layer. If nobody vouches for what its image says, download reads the layer once, because the
// digest of its content goes into the image, and notes it like a layer that was made here.
func (c Cache) download(ctx context.Context, l *remoteLayer, step *progress.Step) error {
	if !l.isHere() {
		if err := l.from.Fetch(ctx); err != nil {
			return err
		}
	}
	if l.from.Verified {
		return nil
	}
	if _, err := c.makeOutline(ctx, nil, l, nil, step, l.from.Name); err != nil {
		return fmt.Errorf("layer %s: %w", l.Record.Digest, err)
	}
	_, err := c.note(l.key, l.Record)
	return err
}

func (l *remoteLayer) isHere() bool { return l.isIn(l.store) }

// Descriptor is that in the manifest of the image that the layer was found in.
func (l *remoteLayer) Descriptor() (*v1.Descriptor, error) {
	return &v1.Descriptor{
		MediaType: l.Record.MediaType, Size: l.Record.Size, Digest: l.Record.Digest, Annotations: maps.Clone(l.from.Annotations),
	}, nil
}

func (l *remoteLayer) Compressed() (io.ReadCloser, error) {
	if !l.isHere() {
		if err := l.bring(l.from.Context()); err != nil {
			return nil, err
		}
	}
	return l.storedLayer.Compressed()
}

// bring downloads the layer, or else makes it.
func (l *remoteLayer) bring(ctx context.Context) error {
	err := l.from.Fetch(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	made, failed := l.again(ctx)
	if failed != nil {
		return errors.Join(err, failed)
	}
	digest, failed := made.Digest()
	if failed == nil && digest != l.Record.Digest {
		failed = fmt.Errorf("the registry names the layer %s, and its inputs give %s: build again with --cache-from none", l.Record.Digest, digest)
	}
	if failed != nil {
		return errors.Join(err, failed)
	}
	return nil
}

func (l *remoteLayer) Uncompressed() (io.ReadCloser, error) {
	full, err := partial.CompressedToLayer(l)
	if err != nil {
		return nil, err
	}
	return full.Uncompressed()
}

// Annotations are what the manifest of an image says of a layer, so that a later build finds it: its key, if
// it was made from one, and its outline. What the layer's manifest said before is kept.
func (c Cache) Annotations(ctx context.Context, l v1.Layer, step *progress.Step) (map[string]string, error) {
	outline, err := c.OutlineOf(ctx, l, step)
	if err != nil {
		return nil, err
	}
	digest, err := outline.Digest()
	if err != nil {
		return nil, err
	}
	size, err := outline.Size()
	if err != nil {
		return nil, err
	}
	return Keyed(l, map[string]string{recipe.LabelOutline: fmt.Sprintf("%s %d", digest, size)}), nil
}

// Annotation is a value that the manifest says of a layer which was found in a registry, or that the cache
// noted. It is "" for all others, and if nobody vouches for the manifest and the content is there to be read.
func Annotation(l v1.Layer, name string) string {
	switch l := l.(type) {
	case *remoteLayer:
		if !l.from.Verified && l.from.Needed {
			return ""
		}
		return l.from.Annotations[name]
	case *storedLayer:
		if name == recipe.LabelFiles {
			return l.Files
		}
	}
	return ""
}

// Keyed adds the key of a layer to annotations.
func Keyed(l v1.Layer, annotations map[string]string) map[string]string {
	switch l := l.(type) {
	case *storedLayer:
		annotations[recipe.LabelKey] = l.key
	case *remoteLayer:
		annotations[recipe.LabelKey] = l.key
	}
	return annotations
}

package remotelayers

import (
	"context"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
)

// OutlinesType is the artifact type of the referrer of an image that has the outlines of its layers.
const OutlinesType = "application/vnd.driver-container.outlines.v1"

const outlineMediaType types.MediaType = "application/vnd.driver-container.outline.v1.tar+zstd"

// Publish makes an image that is in a repository of use to later builds: it adds the outlines of the layers,
// and tags for the keys that no other image there has yet. tag is the image's own. single are the names of
// layers, as the history has them, that no other image shares.
func (f *Finder) Publish(ctx context.Context, cache layer.Cache, repository, tag string, img v1.Image, single ...string) error {
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	if f.has(place{repository, config.Architecture, tag}, digest) {
		return nil
	}
	if err := f.attach(ctx, cache, repository, img); err != nil {
		return fmt.Errorf("add the outlines of the layers of %s to %s: %w", tag, repository, err)
	}
	tags, err := f.newTags(repository, config, img, single) //nolint:contextcheck // the finder has one that lasts
	if err != nil || len(tags) == 0 {
		return err
	}
	if _, _, err := f.Registry.Push(ctx, repository+"@"+digest.String(), img, tags...); err != nil {
		return fmt.Errorf("tag the layers of %s in %s: %w", tag, repository, err)
	}
	return nil
}

func (f *Finder) has(at place, digest v1.Hash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images[at] == digest
}

// newTags are those of layers that no image in the repository has.
func (f *Finder) newTags(repository string, config *v1.ConfigFile, img v1.Image, single []string) (tags []string, err error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	histories, _ := layer.Histories(config, len(manifest.Layers))
	for i, d := range manifest.Layers {
		key := d.Annotations[recipe.LabelKey]
		if key == "" || endsWith(histories[i].CreatedBy, single) {
			continue
		}
		if _, ok := f.findIn(repository, layer.Spec{Arch: config.Architecture, Key: key}); !ok {
			tags = append(tags, Tag(key))
		}
	}
	return tags, nil
}

func endsWith(text string, names []string) bool {
	for _, name := range names {
		if strings.HasSuffix(text, ": "+name) {
			return true
		}
	}
	return false
}

// attach adds the outlines as a referrer, which keeps the registry from removing them. Builds read them by
// the digests in the manifest.
func (f *Finder) attach(ctx context.Context, cache layer.Cache, repository string, img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	var blobs []oci.Blob
	for i, l := range layers {
		want, ok := parseOutline(manifest.Layers[i].Annotations[recipe.LabelOutline])
		if !ok {
			continue
		}
		outline, err := cache.OutlineOf(ctx, l, progress.Observer(nil).Begin("", ""))
		if err != nil {
			return err
		}
		if got, err := outline.Digest(); err != nil || got != want.Digest {
			return fmt.Errorf("the outline of layer %s is %s, and the manifest says %s: %w", manifest.Layers[i].Digest, got, want.Digest, err)
		}
		want.MediaType = outlineMediaType
		blobs = append(blobs, oci.Blob{Desc: want, Open: func() (io.ReadCloser, error) { return outline.Compressed() }})
	}
	desc, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	a, err := oci.NewReferrer(*desc, OutlinesType, blobs, nil)
	if err != nil {
		return err
	}
	_, err = f.Registry.Attach(ctx, repository, a)
	return err
}

package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// sendAtOnce is how many blobs of an image are looked for, or sent, at a time.
const sendAtOnce = 4

// Publish makes an image that is in a repository of use to later builds: it adds tags for the keys
// that no other image there has yet. tag is the image's own. single are the names of layers, as the
// history has them, that no other image shares.
func (f *Finder) Publish(
	ctx context.Context,
	repository, tag string,
	img v1.Image,
	single ...string,
) error {
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	d, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	if under, _ := f.images.Load(place{repository, config.Architecture, tag}); under == d.Digest {
		return nil
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	var tags []string
	histories, _ := Histories(config, len(manifest.Layers))
	for i, l := range manifest.Layers {
		key := l.Annotations[recipe.LabelKey]
		_, name, _ := strings.Cut(histories[i].CreatedBy, ": ")
		if key != "" && !slices.Contains(single, name) &&
			f.findIn(repository, Spec{Arch: config.Architecture, Key: key}) == nil {
			tags = append(tags, tagOf(key))
		}
	}
	if len(tags) == 0 {
		return nil
	}
	if _, _, err := f.Registry.Push(ctx, repository+"@"+d.Digest.String(), img, tags...); err != nil {
		return fmt.Errorf("tag the layers of %s in %s: %w", tag, repository, err)
	}
	return nil
}

// hasImage says whether a tag that was read leads to an image.
func (f *Finder) hasImage(repository string, image v1.Hash) bool {
	_, found := f.images.Load(repository + "@" + image.String())
	return found
}

// Attached returns what belongs to an artifact, and to the images in it, in the first repository
// that the finder found one of its images in. Nothing of it is verified but its digests. A registry
// that fails is left out, with a note.
func (f *Finder) Attached(ctx context.Context, artifact, image v1.Hash) []oci.Attachment {
	for _, repository := range f.From {
		if !f.hasImage(repository, image) {
			continue
		}
		ref := repository + "@" + artifact.String()
		all, err := f.Registry.Attachments(ctx, ref)
		if err == nil && len(all) > 0 {
			return all
		}
		if !errors.Is(err, fs.ErrNotExist) {
			f.note(repository, ref, err)
		}
	}
	return nil
}

// Complete sends blobs that a repository lost although it has the manifest of an image that names
// them: a push of the same image asks for the manifest only. It does nothing for images that the
// finder has not found in the repository.
func (f *Finder) Complete(ctx context.Context, repository string, images []v1.Image) error {
	for _, img := range images {
		digest, err := img.Digest()
		if err != nil {
			return err
		}
		if !f.hasImage(repository, digest) {
			continue
		}
		content, err := oci.Collect(img)
		if err != nil {
			return err
		}
		jobs, jctx := errgroup.WithContext(ctx)
		jobs.SetLimit(sendAtOnce)
		for _, b := range content.Blobs {
			jobs.Go(func() error {
				_, err := f.complete.Get(
					jctx,
					repository+"@"+b.Desc.Digest.String(),
					func() (bool, error) { return true, f.send(jctx, repository, b) },
				)
				return err
			})
		}
		if err := jobs.Wait(); err != nil {
			return fmt.Errorf("send again what %s lost of image %s: %w", repository, digest, err)
		}
	}
	return nil
}

// send sends a blob, unless the repository has it.
func (f *Finder) send(ctx context.Context, repository string, b oci.Blob) error {
	state, err := f.Registry.PushBlob(ctx, repository, b)
	if err == nil && state != registry.Exists {
		f.say(
			repository,
			fmt.Sprintf(
				"warning: %s had lost the blob %s of an image, and has it again",
				repository,
				b.Desc.Digest,
			),
		)
	}
	return err
}

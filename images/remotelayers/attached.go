package remotelayers

import (
	"context"
	"errors"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// Attached returns what belongs to an artifact, and to the images in it, in the first repository that the
// finder found one of its images in. Nothing of it is verified but its digests. A registry that fails is
// left out, with a note.
func (f *Finder) Attached(ctx context.Context, artifact, image v1.Hash) []oci.Attachment {
	for _, repository := range f.From {
		if !f.found(repository, image) {
			continue
		}
		name := repository + "@" + artifact.String()
		all, err := f.Registry.Attachments(ctx, name)
		if err == nil && len(all) > 0 {
			return all
		}
		if !errors.Is(err, fs.ErrNotExist) {
			f.note(name, err)
		}
	}
	return nil
}

// found says whether a tag that was read leads to an image.
func (f *Finder) found(repository string, image v1.Hash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, digest := range f.images {
		if at.repository == repository && digest == image {
			return true
		}
	}
	return false
}

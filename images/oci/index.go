package oci

import (
	"bytes"
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
)

// OpenLocal opens an image or a whole index on this machine (oci:DIR[:TAG], oci-archive:FILE[:TAG],
// docker-archive:FILE[:TAG]) for a push. Without a tag the source must have exactly one entry. Content is
// verified when it is read.
func OpenLocal(ctx context.Context, store *fetch.Store, ref string) (Artifact, error) {
	l, ok := ParseLocal(ref)
	if !ok {
		return nil, fmt.Errorf("read %s: not an image on this machine: give oci:DIR, oci-archive:FILE or docker-archive:FILE", ref)
	}
	m, b, err := l.open(ctx, store, "")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	isIndex, err := kindOf(m.Raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	if !isIndex {
		img, err := NewImage(m.Raw, b)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", ref, err)
		}
		return img, nil
	}
	return newIndex(m.Raw, b)
}

// index is a v1.ImageIndex over blobs.
type index struct {
	Raw      []byte
	manifest *v1.IndexManifest
	blobs    Blobs
}

var _ v1.ImageIndex = (*index)(nil)

func newIndex(raw []byte, b Blobs) (*index, error) {
	m, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the index in %s is malformed: %w", b.where, err)
	}
	return &index{raw, m, b}, nil
}

func (i *index) MediaType() (types.MediaType, error) {
	return mediaTypeOf(i.Raw, i.manifest.MediaType), nil
}
func (i *index) Digest() (v1.Hash, error)                  { return partial.Digest(i) }
func (i *index) Size() (int64, error)                      { return int64(len(i.Raw)), nil }
func (i *index) IndexManifest() (*v1.IndexManifest, error) { return i.manifest.DeepCopy(), nil }
func (i *index) RawManifest() ([]byte, error)              { return i.Raw, nil }

func (i *index) Image(h v1.Hash) (v1.Image, error) {
	raw, err := i.blobs.Document(h, MaxManifest)
	if err != nil {
		return nil, err
	}
	return NewImage(raw, i.blobs)
}

func (i *index) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	raw, err := i.blobs.Document(h, MaxManifest)
	if err != nil {
		return nil, err
	}
	return newIndex(raw, i.blobs)
}

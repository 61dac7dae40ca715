package oci

import (
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Artifact is a manifest or an index, with everything that it names: an image, an index of images, or any
// other artifact of a registry, such as a chart or an SBOM. A v1.Image and a v1.ImageIndex are artifacts;
// [NewArtifact] makes one of any kind.
type Artifact interface {
	MediaType() (types.MediaType, error)
	Digest() (v1.Hash, error)
	Size() (int64, error)
	RawManifest() ([]byte, error)
}

// Images and indexes are artifacts.
var (
	_ Artifact = v1.Image(nil)
	_ Artifact = v1.ImageIndex(nil)
	_ Artifact = (*stored)(nil)
)

// stored is an artifact of any kind over blobs.
type stored struct {
	raw   []byte
	blobs Blobs
}

// NewArtifact makes an artifact of a verified manifest or index. [Collect] reads what it names.
func NewArtifact(raw []byte, b Blobs) (Artifact, error) {
	if _, err := kindOf(raw); err != nil {
		return nil, err
	}
	return &stored{raw, b}, nil
}

func (s *stored) Digest() (v1.Hash, error)     { return HashOf(s.raw), nil }
func (s *stored) Size() (int64, error)         { return int64(len(s.raw)), nil }
func (s *stored) RawManifest() ([]byte, error) { return s.raw, nil }

// MediaType returns the type that the document states.
func (s *stored) MediaType() (types.MediaType, error) {
	var doc struct{ MediaType types.MediaType }
	if err := json.Unmarshal(s.raw, &doc); err != nil {
		return "", fmt.Errorf("the manifest is malformed: %w", err)
	}
	return mediaTypeOf(s.raw, doc.MediaType), nil
}

// blob returns a blob that is opened where it is.
func (b Blobs) blob(d v1.Descriptor) Blob {
	return Blob{Desc: d, Open: func() (io.ReadCloser, error) {
		r, err := b.open(d)
		if err != nil {
			return nil, fmt.Errorf("open %s in %s: %w", d.Digest, b.where, err)
		}
		return Verify(r, d, b.where), nil
	}}
}

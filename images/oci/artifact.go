package oci

import (
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Artifact is an image or an index of images: a v1.Image or a v1.ImageIndex. The interface has the methods of
// both.
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
)

// Blob is a layer or a config.
type Blob struct {
	Desc v1.Descriptor
	Open func() (io.ReadCloser, error)
}

// Document is a manifest or an index.
type Document struct {
	Raw  []byte
	Desc v1.Descriptor
}

// Content is everything that belongs to an artifact.
type Content struct {
	Blobs     []Blob     // each once, in order of appearance
	Documents []Document // each once; an index comes after what it names, the artifact itself is last
	Bases     []string   // names of base images, from annotations
	images    int
}

// Top returns the document that names all others: the manifest or the index.
func (c *Content) Top() Document { return c.Documents[len(c.Documents)-1] }

// BaseNameAnnotation names the image that an image is based on.
const BaseNameAnnotation = "org.opencontainers.image.base.name"

// Collect returns everything that belongs to an artifact.
func Collect(t Artifact) (*Content, error) {
	c := &Content{}
	return c, c.add(t, map[v1.Hash]bool{}, maxDepth)
}

func (c *Content) add(t Artifact, seen map[v1.Hash]bool, depth int) error {
	if depth == 0 {
		return fmt.Errorf("indexes within indexes, more than %d deep", maxDepth)
	}
	raw, err := t.RawManifest()
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	mt, err := t.MediaType()
	if err != nil {
		return fmt.Errorf("read the manifest's type: %w", err)
	}
	d := Document{Raw: raw, Desc: v1.Descriptor{MediaType: mt, Size: int64(len(raw)), Digest: HashOf(raw)}}
	if seen[d.Desc.Digest] {
		return nil
	}
	seen[d.Desc.Digest] = true
	switch t := t.(type) {
	case v1.Image:
		cf, err := t.ConfigFile()
		if err != nil {
			return fmt.Errorf("read the image config: %w", err)
		}
		d.Desc.Platform = platformOf(cf)
		err = c.addImage(t, seen)
		if err != nil {
			return err
		}
	case v1.ImageIndex:
		if err := c.addIndex(t, seen, depth); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%T is neither an image nor an index", t)
	}
	c.Documents = append(c.Documents, d)
	return nil
}

func platformOf(cf *v1.ConfigFile) *v1.Platform {
	if cf.OS == "" || cf.Architecture == "" {
		return nil
	}
	return &v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}
}

func (c *Content) addImage(i v1.Image, seen map[v1.Hash]bool) error {
	m, err := i.Manifest()
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	config, err := i.RawConfigFile()
	if err != nil {
		return fmt.Errorf("read the image config: %w", err)
	}
	c.images++
	if name := m.Annotations[BaseNameAnnotation]; name != "" {
		c.Bases = append(c.Bases, name)
	}
	for _, d := range m.Layers {
		c.addBlob(seen, d, func() (io.ReadCloser, error) {
			l, err := i.LayerByDigest(d.Digest)
			if err != nil {
				return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
			}
			return l.Compressed()
		})
	}
	c.addBlob(seen, m.Config, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(config)), nil })
	return nil
}

func (c *Content) addBlob(seen map[v1.Hash]bool, d v1.Descriptor, open func() (io.ReadCloser, error)) {
	if !seen[d.Digest] {
		seen[d.Digest] = true
		c.Blobs = append(c.Blobs, Blob{d, open})
	}
}

func (c *Content) addIndex(x v1.ImageIndex, seen map[v1.Hash]bool, depth int) error {
	m, err := x.IndexManifest()
	if err != nil {
		return fmt.Errorf("read the index: %w", err)
	}
	for _, d := range m.Manifests {
		var child Artifact
		switch {
		case d.MediaType.IsImage():
			child, err = x.Image(d.Digest)
		case d.MediaType.IsIndex():
			child, err = x.ImageIndex(d.Digest)
		default:
			err = fmt.Errorf("its type is %q", d.MediaType)
		}
		if err == nil {
			err = c.add(child, seen, depth-1)
		}
		if err != nil {
			return fmt.Errorf("%s in the index: %w", d.Digest, err)
		}
	}
	return nil
}

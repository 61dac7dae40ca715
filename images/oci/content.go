package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci/layername"
)

// Bounds of the manifests of one artifact. An index of images has about ten, of 2 KiB each.
const (
	maxDocuments     = 10_000
	maxDocumentBytes = 64 << 20
)

// Blob is a layer or a config.
type Blob struct {
	Desc v1.Descriptor
	Name string // what people call it; "" if nothing says it
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
	images    []Document // manifests of container images

	documents, documentBytes int // seen so far
}

// Top returns the document that names all others: the manifest or the index.
func (c *Content) Top() Document { return c.Documents[len(c.Documents)-1] }

// BaseNameAnnotation names the image that an image is based on.
const BaseNameAnnotation = "org.opencontainers.image.base.name"

// Collect returns everything that belongs to an artifact of any kind. It opens no blob.
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
	c.documents++
	c.documentBytes += len(raw)
	if c.documents > maxDocuments || c.documentBytes > maxDocumentBytes {
		return fmt.Errorf("it has more than %d manifests or %d bytes of them", maxDocuments, maxDocumentBytes)
	}
	if err := c.addNamed(t, d, seen, depth); err != nil {
		return err
	}
	c.Documents = append(c.Documents, d)
	return nil
}

// addNamed adds what a document names.
func (c *Content) addNamed(t Artifact, d Document, seen map[v1.Hash]bool, depth int) error {
	switch t := t.(type) {
	case *stored:
		index, err := kindOf(t.raw)
		if err != nil {
			return err
		}
		if !index {
			open := func(b v1.Descriptor) (io.ReadCloser, error) { return t.blobs.blob(b).Open() }
			if t.blobs.manifest == nil { // on this machine: of another one the config would have to be downloaded
				if img, err := NewImage(t.raw, t.blobs); err == nil {
					return c.addManifest(d, seen, layername.WithArch(img), img.open)
				}
			}
			return c.addManifest(d, seen, nil, open)
		}
		return c.addStoredIndex(t, seen, depth)
	case v1.Image:
		return c.addImage(t, d, seen)
	case v1.ImageIndex:
		return c.addIndex(t, seen, depth)
	}
	return fmt.Errorf("%T is neither an image nor an index", t)
}

// addStoredIndex adds what an index names: other documents, and blobs, which the caches of BuildKit list in
// an index.
func (c *Content) addStoredIndex(s *stored, seen map[v1.Hash]bool, depth int) error {
	m, err := v1.ParseIndexManifest(bytes.NewReader(s.raw))
	if err != nil {
		return fmt.Errorf("the index is malformed: %w", err)
	}
	for _, d := range m.Manifests {
		if d.Digest.Algorithm != "sha256" || d.Size < 0 {
			return fmt.Errorf("the index is malformed: %q of %d bytes (only sha256 is supported)", d.Digest, d.Size)
		}
		if d.MediaType != "" && !d.MediaType.IsImage() && !d.MediaType.IsIndex() && !d.MediaType.IsSchema1() {
			b := s.blobs.blob(d)
			c.addBlob(seen, b)
			continue
		}
		if seen[d.Digest] {
			continue
		}
		raw, err := s.blobs.Document(d.Digest, MaxManifest)
		if err == nil && s.blobs.manifest == nil {
			err = s.blobs.checkEntry(d, raw)
		}
		if err == nil {
			err = c.add(&stored{raw, s.blobs}, seen, depth-1)
		}
		if err != nil {
			return fmt.Errorf("%s in the index: %w", d.Digest, err)
		}
	}
	return nil
}

// addImage adds the blobs of an image that this package did not read.
func (c *Content) addImage(i v1.Image, d Document, seen map[v1.Hash]bool) error {
	config, err := i.RawConfigFile()
	if err != nil {
		return fmt.Errorf("read the image config: %w", err)
	}
	isConfig := HashOf(config)
	return c.addManifest(d, seen, layername.WithArch(i), func(b v1.Descriptor) (io.ReadCloser, error) {
		if b.Digest == isConfig {
			return io.NopCloser(bytes.NewReader(config)), nil
		}
		l, err := i.LayerByDigest(b.Digest)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", b.Digest, err)
		}
		return l.Compressed()
	})
}

// addManifest adds the layers and the config of a manifest.
func (c *Content) addManifest(d Document, seen map[v1.Hash]bool, names map[v1.Hash]string, open func(v1.Descriptor) (io.ReadCloser, error)) error {
	m, err := parseGeneric(d.Raw)
	if err != nil {
		return err
	}
	isImage := isImageConfig(m.Config.MediaType)
	for _, b := range append(m.Layers, m.Config) {
		if !b.MediaType.IsDistributable() {
			return fmt.Errorf("the manifest has a layer of type %q: it is not in the registry, and cannot be copied", b.MediaType)
		}
		isImage = isImage && (b.Digest == m.Config.Digest || b.MediaType.IsLayer())
		c.addBlob(seen, Blob{b, names[b.Digest], func() (io.ReadCloser, error) { return open(b) }})
	}
	if isImage {
		c.images = append(c.images, d)
		if name := m.Annotations[BaseNameAnnotation]; name != "" {
			c.Bases = append(c.Bases, name)
		}
	}
	return nil
}

func isImageConfig(t types.MediaType) bool {
	return t == types.OCIConfigJSON || t == types.DockerConfigJSON
}

func (c *Content) addBlob(seen map[v1.Hash]bool, b Blob) {
	if !seen[b.Desc.Digest] {
		seen[b.Desc.Digest] = true
		c.Blobs = append(c.Blobs, b)
	}
}

// addIndex adds the documents of an index that this package did not read.
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

// entry returns the descriptor of the artifact for the index of a layout: that of an image says for which
// platform it is.
func (c *Content) entry() (d v1.Descriptor, err error) {
	d = c.Top().Desc
	if len(c.images) == 0 || c.images[len(c.images)-1].Desc.Digest != d.Digest {
		return d, nil
	}
	m, err := parseGeneric(c.Top().Raw)
	if err != nil {
		return d, err
	}
	for _, b := range c.Blobs {
		if b.Desc.Digest == m.Config.Digest {
			d.Platform, err = b.platform()
		}
	}
	return d, err
}

// platform returns the platform that the config of an image names, nil if it names none.
func (b Blob) platform() (_ *v1.Platform, err error) {
	r, err := b.Open()
	if err != nil {
		return nil, fmt.Errorf("read the image config: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	cf, err := v1.ParseConfigFile(io.LimitReader(r, MaxConfig))
	if err != nil {
		return nil, fmt.Errorf("the image config %s is malformed: %w", b.Desc.Digest, err)
	}
	if cf.OS == "" || cf.Architecture == "" {
		return nil, nil //nolint:nilnil // none is a platform that is not known
	}
	return &v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}, nil
}

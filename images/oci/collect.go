package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Bounds of the manifests of one artifact. An index of images has about ten, of 2 KiB each.
const (
	maxDocuments     = 10_000
	maxDocumentBytes = 64 << 20
)

// BaseNameAnnotation names the image that an image is based on.
const BaseNameAnnotation = "org.opencontainers.image.base.name"

// Content is everything that belongs to an artifact.
type Content struct {
	Blobs []Blob // each once, in order of appearance
	// each once; an index comes after what it names, the artifact itself is last
	Documents []Document
	Bases     []string   // names of base images, from annotations
	images    []Document // manifests of container images
}

// Top returns the document that names all others: the manifest or the index.
func (c *Content) Top() Document { return c.Documents[len(c.Documents)-1] }

// Subjects returns what something can belong to: an index before its manifests.
func (c *Content) Subjects() (all []v1.Hash) {
	for _, d := range slices.Backward(c.Documents) {
		all = append(all, d.Desc.Digest)
	}
	return all
}

// Collect returns everything that belongs to an artifact of any kind. It opens no blob.
func Collect(t Artifact) (*Content, error) {
	c := collector{seen: map[v1.Hash]bool{}}
	return &c.Content, c.add(t, maxDepth)
}

type collector struct {
	Content
	seen  map[v1.Hash]bool
	bytes int // of the documents
}

// parts opens what the document of an artifact names.
type parts struct {
	artifact func(v1.Descriptor) (Artifact, error)
	blob     func(v1.Descriptor) (io.ReadCloser, error)
	names    map[v1.Hash]string
}

func partsOf(t Artifact) parts {
	switch t := t.(type) {
	case *stored:
		p := parts{artifact: t.named, blob: t.blobs.open}
		// on this machine: elsewhere the config would have to be downloaded
		if t.blobs.manifest != nil {
			return p
		}
		img, err := newImage(t.raw, t.blobs)
		if err != nil {
			return p // another artifact
		}
		return parts{names: namesWithArch(img), blob: img.open}
	case v1.Image:
		return parts{names: namesWithArch(t), blob: func(d v1.Descriptor) (io.ReadCloser, error) {
			config, err := t.RawConfigFile()
			if err != nil {
				return nil, err
			}
			if HashOf(config) == d.Digest {
				return io.NopCloser(bytes.NewReader(config)), nil
			}
			l, err := t.LayerByDigest(d.Digest)
			if err != nil {
				return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
			}
			return l.Compressed()
		}}
	case v1.ImageIndex:
		return parts{artifact: func(d v1.Descriptor) (Artifact, error) {
			if d.MediaType.IsIndex() {
				return t.ImageIndex(d.Digest)
			}
			return t.Image(d.Digest)
		}}
	}
	return parts{}
}

// named returns a document that the index names.
func (s *stored) named(d v1.Descriptor) (Artifact, error) {
	raw, err := s.blobs.named(d)
	if err != nil {
		return nil, err
	}
	return NewArtifact(raw, s.blobs)
}

func (c *collector) add(t Artifact, depth int) error {
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
	d := NewDocument(raw, mt)
	if c.seen[d.Desc.Digest] {
		return nil
	}
	c.seen[d.Desc.Digest] = true
	c.bytes += len(raw)
	if len(c.Documents) >= maxDocuments || c.bytes > maxDocumentBytes {
		return fmt.Errorf(
			"it has more than %d manifests or %d bytes of them", maxDocuments, maxDocumentBytes,
		)
	}
	doc, err := parse(raw)
	if err != nil {
		return err
	}
	if doc.Manifests == nil {
		err = c.addManifest(d, doc, partsOf(t))
	} else {
		err = c.addIndex(*doc.Manifests, partsOf(t), depth)
	}
	c.Documents = append(c.Documents, d)
	return err
}

// addIndex adds what an index names: other documents, and blobs, which the caches of BuildKit list
// in an index.
func (c *collector) addIndex(entries []v1.Descriptor, p parts, depth int) error {
	for _, d := range entries {
		err := c.addEntry(d, p, depth)
		if err != nil {
			return fmt.Errorf("%s in the index: %w", d.Digest, err)
		}
	}
	return nil
}

func (c *collector) addEntry(d v1.Descriptor, p parts, depth int) error {
	mt := d.MediaType
	isBlob := mt != "" && !mt.IsImage() && !mt.IsIndex() && !mt.IsSchema1()
	switch {
	case c.seen[d.Digest]:
		return nil
	case isBlob && p.blob == nil:
		return fmt.Errorf("its type is %q", mt)
	case isBlob:
		c.addBlob(d, p)
		return nil
	}
	t, err := p.artifact(d)
	if err != nil {
		return err
	}
	return c.add(t, depth-1)
}

// addManifest adds the layers and the config of a manifest.
func (c *collector) addManifest(d Document, doc document, p parts) error {
	if p.blob == nil {
		return errors.New("it is neither an image nor an index")
	}
	config := *doc.Config
	isImage := config.MediaType.IsConfig()
	for _, b := range append(doc.Layers, config) {
		if !b.MediaType.IsDistributable() {
			return malformed(
				"the manifest has a layer of type %q: it is not in the registry, and cannot be copied",
				b.MediaType,
			)
		}
		isImage = isImage && (b.Digest == config.Digest || b.MediaType.IsLayer())
		c.addBlob(b, p)
	}
	if !isImage {
		return nil
	}
	c.images = append(c.images, d)
	base := doc.Annotations[BaseNameAnnotation]
	if base != "" {
		c.Bases = append(c.Bases, base)
	}
	return nil
}

func (c *collector) addBlob(d v1.Descriptor, p parts) {
	if !c.seen[d.Digest] {
		c.seen[d.Digest] = true
		c.Blobs = append(
			c.Blobs,
			Blob{d, p.names[d.Digest], func() (io.ReadCloser, error) { return p.blob(d) }},
		)
	}
}

package oci

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/strictjson"
)

// Annotations of the entries of attachments in the index of a layout. They have no
// org.opencontainers.image.ref.name, because containerd would take a named entry for an image.
const (
	TagAnnotation = "io.github.driver-container.tag" // of .sig and .att
	// where a layout has attachments of several
	RepositoryAnnotation = "io.github.driver-container.repository"
	// digest of the subject; containerd 2 reads it
	SubjectAnnotation = "io.containerd.manifest.subject"
)

// LayoutVersion is the content of the file oci-layout.
const LayoutVersion = `{"imageLayoutVersion":"1.0.0"}`

// graph is what is written into a layout: its index, and the blobs that it names and that may be
// missing.
type graph struct {
	index v1.IndexManifest
	have  Blobs // of the layout that is there
	blobs map[v1.Hash]Blob
}

func newGraph() *graph {
	none := files(func(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist })
	return &graph{
		v1.IndexManifest{
			SchemaVersion: 2,
			MediaType:     types.OCIImageIndex,
			Manifests:     []v1.Descriptor{},
		},
		none.blobs("it"),
		map[v1.Hash]Blob{},
	}
}

func (g *graph) put(all *Content) {
	for _, d := range all.Documents {
		g.blobs[d.Desc.Digest] = d.Blob()
	}
	for _, b := range all.Blobs {
		g.blobs[b.Desc.Digest] = b
	}
}

// add adds an artifact under a name, which it takes from any other entry; nil is none.
func (g *graph) add(t Artifact, tag, fullName string) error {
	if t == nil {
		return nil
	}
	all, err := Collect(t)
	if err != nil {
		return err
	}
	g.put(all)
	entry, err := all.entry()
	if err != nil {
		return err
	}
	g.index.Manifests = slices.DeleteFunc(g.index.Manifests, func(e v1.Descriptor) bool {
		name, ok := e.Annotations[RefNameAnnotation]
		return ok && name == tag || !ok && tag == "" && e.Digest == entry.Digest
	})
	if tag != "" {
		entry.Annotations = map[string]string{RefNameAnnotation: tag}
	}
	if fullName != "" {
		entry.Annotations[ContainerdNameAnnotation] = fullName
	}
	g.index.Manifests = append(g.index.Manifests, entry)
	return nil
}

// entry returns the descriptor of the artifact for the index of a layout: that of an image says for
// which platform it is.
func (c *Content) entry() (v1.Descriptor, error) {
	d := c.Top().Desc
	if n := len(c.images); n == 0 || c.images[n-1].Desc.Digest != d.Digest {
		return d, nil
	}
	config := c.Blobs[len(c.Blobs)-1]
	raw, err := ReadBlob(config, MaxConfig)
	if err != nil {
		return d, fmt.Errorf("read the image config: %w", err)
	}
	cf, err := strictjson.Decode[v1.ConfigFile](raw)
	if err != nil {
		return d, fmt.Errorf("the image config %s is malformed: %w", config.Desc.Digest, err)
	}
	if cf.OS != "" && cf.Architecture != "" {
		d.Platform = &v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}
	}
	return d, nil
}

// entry returns the descriptor of an attachment for the index of a layout.
func (a Attachment) entry() v1.Descriptor {
	d := a.Manifest.Desc
	d.Platform = nil
	d.Annotations = map[string]string{SubjectAnnotation: a.Subject.String()}
	if a.Tag != "" {
		d.Annotations[TagAnnotation] = a.Tag
	}
	return d
}

// read reads a document or a config that the layout has, or will have.
func (g *graph) read(d v1.Descriptor) ([]byte, error) {
	if b, ok := g.blobs[d.Digest]; ok {
		return ReadBlob(b, MaxConfig)
	}
	return g.have.Document(d.Digest, MaxConfig)
}

// attach adds attachments. One with a tag extends that of the layout, and those of the same tag
// before it.
func (g *graph) attach(all []Attachment) error {
	for _, a := range all {
		at := slices.IndexFunc(g.index.Manifests, func(d v1.Descriptor) bool {
			return a.Tag != "" && attachmentTag(d) == a.Tag ||
				a.Tag == "" && d.Digest == a.Manifest.Desc.Digest
		})
		if at < 0 {
			g.index.Manifests = append(g.index.Manifests, a.entry())
		} else if a.Tag != "" {
			there := g.index.Manifests[at]
			raw, err := g.read(there)
			if err != nil {
				return err
			}
			a, err = a.Extend(raw, g.read)
			if err != nil {
				return err
			}
			delete(g.blobs, there.Digest) // of an attachment before this one
			g.index.Manifests[at] = a.entry()
		}
		g.put(a.Content())
	}
	return nil
}

// rawIndex returns the index. Its entries are sorted by name, so that it does not depend on the
// order of builds; attachments come last, sorted by digest.
func (g *graph) rawIndex() ([]byte, error) {
	order := func(d v1.Descriptor) string {
		if d.Annotations[SubjectAnnotation] != "" {
			return "\xff" + d.Digest.Hex
		}
		return d.Annotations[RefNameAnnotation]
	}
	slices.SortStableFunc(
		g.index.Manifests,
		func(x, y v1.Descriptor) int { return cmp.Compare(order(x), order(y)) },
	)
	raw, err := json.Marshal(g.index)
	if len(raw) > MaxManifest {
		return nil, fmt.Errorf(
			"its index.json would have %d entries and more than %d bytes: write to another folder",
			len(g.index.Manifests), MaxManifest,
		)
	}
	return raw, err
}

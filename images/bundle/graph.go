package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// maxDepth bounds how deep indexes nest, and attachments of attachments: a signature of an SBOM of an image is 2.
const maxDepth = 4

// emptyConfig is the config of the bundle's manifest and of most artifacts. It is a member of every bundle and
// therefore on no list.
var emptyConfig = oci.BytesBlob(oci.EmptyConfig, []byte("{}"), nil)

// references is what a manifest or an index names.
type references struct {
	mediaType types.MediaType
	named     []v1.Descriptor // of a manifest its layers, then its config
	subject   *v1.Descriptor
}

// isDocument separates the documents that an index names from blobs, which the caches of BuildKit list there.
func (r references) isDocument(d v1.Descriptor) bool {
	return r.mediaType.IsIndex() && (d.MediaType == "" || d.MediaType.IsImage() || d.MediaType.IsIndex())
}

// refer parses a manifest or an index.
func refer(raw []byte) (references, error) {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Config        *v1.Descriptor  `json:"config"`
		Layers        []v1.Descriptor `json:"layers"`
		Manifests     []v1.Descriptor `json:"manifests"`
		Subject       *v1.Descriptor  `json:"subject"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return references{}, fmt.Errorf("it is malformed: %w", err)
	}
	r := references{mediaType: doc.MediaType, named: doc.Manifests, subject: doc.Subject}
	index := doc.Config == nil
	switch {
	case doc.SchemaVersion != 2 || index == (doc.Manifests == nil) || index && doc.Layers != nil:
		return references{}, errors.New("it is neither a manifest nor an index")
	case r.mediaType == "" && index:
		r.mediaType = types.OCIImageIndex
	case r.mediaType == "":
		r.mediaType = types.OCIManifestSchema1
	}
	if index != r.mediaType.IsIndex() || index == r.mediaType.IsImage() {
		return references{}, fmt.Errorf("its media type %q is not that of its content", r.mediaType)
	}
	if !index {
		r.named = slices.Concat(doc.Layers, []v1.Descriptor{*doc.Config})
	}
	if slices.ContainsFunc(r.named, func(d v1.Descriptor) bool { return d.Digest.Hex == "" }) {
		return references{}, errors.New("it names something without a digest")
	}
	return r, nil
}

// graph is what items need. It is the same wherever it is made: create writes it into the list, and every reader
// compares it with the list.
type graph struct {
	raw       map[v1.Hash][]byte // of the documents
	documents []Blob             // each once; an index after what it names
	blobs     []Blob             // each once
	sizes     map[v1.Hash]int64
	users     map[v1.Hash][]string // repositories that need a document or a blob
}

// collect follows items to everything that they need.
func collect(items []Item, raw map[v1.Hash][]byte) (*graph, error) {
	g := &graph{raw: raw, sizes: map[v1.Hash]int64{}, users: map[v1.Hash][]string{}}
	for _, i := range items {
		if err := g.item(i); err != nil {
			return nil, fmt.Errorf("item %s in %s: %w", i.Descriptor.Digest, i.Repository, err)
		}
	}
	return g, nil
}

func (g *graph) item(i Item) error {
	if i.Subject != nil && !slices.Contains(g.users[*i.Subject], i.Repository) {
		return fmt.Errorf("it belongs to %s, which is not before it", i.Subject)
	}
	if err := g.document(i.Repository, i.Descriptor, maxDepth); err != nil {
		return err
	}
	r, err := refer(g.raw[i.Descriptor.Digest])
	switch {
	case err != nil:
		return err
	case r.mediaType != i.Descriptor.MediaType:
		return fmt.Errorf("it has the media type %q on the list, and %q itself", i.Descriptor.MediaType, r.mediaType)
	case i.Subject != nil && len(i.Tags) == 0 && (r.subject == nil || r.subject.Digest != *i.Subject):
		return fmt.Errorf("it belongs to %s on the list, but does not name it", i.Subject)
	}
	return nil
}

// document adds a document, after what it names.
func (g *graph) document(repository string, d v1.Descriptor, depth int) error {
	raw, known := g.raw[d.Digest]
	switch {
	case !known || int64(len(raw)) != d.Size:
		return fmt.Errorf("%s is no document of %d bytes", d.Digest, d.Size)
	case depth == 0:
		return fmt.Errorf("%s: indexes within indexes, more than %d deep", d.Digest, maxDepth)
	case slices.Contains(g.users[d.Digest], repository):
		return nil
	}
	r, err := refer(raw)
	if err != nil {
		return fmt.Errorf("document %s: %w", d.Digest, err)
	}
	for _, n := range r.named {
		if r.isDocument(n) {
			err = g.document(repository, n, depth-1)
		} else {
			err = g.add(repository, n, &g.blobs)
		}
		if err != nil {
			return err
		}
	}
	return g.add(repository, d, &g.documents)
}

// add adds a user of a document or a blob, and puts it into all unless it was there. The empty config is on no list.
func (g *graph) add(repository string, d v1.Descriptor, all *[]Blob) error {
	size, known := g.sizes[d.Digest]
	if known && size != d.Size {
		return fmt.Errorf("%s is said to have %d bytes, and %d", d.Digest, size, d.Size)
	}
	if !known && d.Digest != emptyConfig.Desc.Digest {
		*all = append(*all, Blob{d.Digest, d.Size})
	}
	g.sizes[d.Digest] = d.Size
	if !slices.Contains(g.users[d.Digest], repository) {
		g.users[d.Digest] = append(g.users[d.Digest], repository)
	}
	return nil
}

// documentOf returns a document that an item needs, with its descriptor.
func documentOf(raw []byte) oci.Document {
	r, _ := refer(raw) // was read before
	return oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: r.mediaType, Size: int64(len(raw)), Digest: oci.HashOf(raw)}}
}

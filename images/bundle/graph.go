package bundle

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxDepth bounds how deep indexes nest.
const maxDepth = 4

// References is what a manifest or an index names.
type References struct {
	MediaType types.MediaType
	Documents []v1.Descriptor // of an index
	Blobs     []v1.Descriptor // of a manifest: its config, then its layers
	Subject   *v1.Descriptor
}

// Refer parses a manifest or an index, and checks the descriptors in it.
func Refer(raw []byte) (References, error) {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Config        *v1.Descriptor  `json:"config"`
		Layers        []v1.Descriptor `json:"layers"`
		Manifests     []v1.Descriptor `json:"manifests"`
		Subject       *v1.Descriptor  `json:"subject"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return References{}, fmt.Errorf("it is malformed: %w", err)
	}
	r := References{MediaType: doc.MediaType, Subject: doc.Subject}
	switch {
	case doc.SchemaVersion != 2 || (doc.Config == nil) == (doc.Manifests == nil) || doc.Manifests != nil && doc.Layers != nil:
		return References{}, errors.New("it is neither a manifest nor an index")
	case doc.Config != nil:
		r.Blobs = append([]v1.Descriptor{*doc.Config}, doc.Layers...)
	default:
		r.Documents, r.Blobs = divide(doc.Manifests)
	}
	if r.MediaType == "" {
		r.MediaType = types.OCIManifestSchema1
		if doc.Config == nil {
			r.MediaType = types.OCIImageIndex
		}
	}
	if index := doc.Config == nil; index != r.MediaType.IsIndex() || index == r.MediaType.IsImage() {
		return References{}, fmt.Errorf("its media type %q is not that of its content", r.MediaType)
	}
	for _, all := range [][]v1.Descriptor{r.Blobs, r.Documents} {
		for _, d := range all {
			if err := checkDigest(d.Digest); err != nil {
				return References{}, err
			}
		}
	}
	return r, nil
}

// divide separates the documents that an index names from blobs, which the caches of BuildKit list there.
func divide(entries []v1.Descriptor) (documents, blobs []v1.Descriptor) {
	for _, d := range entries {
		if d.MediaType != "" && !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
			blobs = append(blobs, d)
		} else {
			documents = append(documents, d)
		}
	}
	return documents, blobs
}

// CheckDocuments compares the documents, by their digests, with the list, in both directions. It returns what
// is wrong, a sentence each. Documents that are missing are passed over.
func (l *List) CheckDocuments(documents map[v1.Hash][]byte) []string {
	g := graph{sizes: map[v1.Hash]int64{}, blobs: map[v1.Hash]bool{}, used: map[v1.Hash]bool{}, depth: map[v1.Hash]int{}}
	empty := EmptyConfig().Desc
	g.sizes[empty.Digest], g.blobs[empty.Digest] = empty.Size, true
	for _, b := range l.Blobs {
		g.sizes[b.Digest], g.blobs[b.Digest] = b.Size, true
	}
	for _, d := range l.Documents {
		g.sizes[d.Digest] = d.Size
		if raw, ok := documents[d.Digest]; ok {
			g.add(d.Digest, raw)
		}
	}
	earlier := map[string]bool{}
	for _, i := range l.Items {
		g.item(i, documents, earlier)
	}
	for _, b := range l.Blobs {
		if !g.used[b.Digest] && len(documents) == len(l.Documents) {
			g.fault("blob %s is on the list, but no manifest names it", b.Digest)
		}
	}
	for _, d := range l.Documents {
		if !g.used[d.Digest] && len(documents) == len(l.Documents) {
			g.fault("document %s is on the list, but nothing names it", d.Digest)
		}
	}
	return append(g.faults, l.checkFiles(documents)...)
}

type graph struct {
	sizes  map[v1.Hash]int64
	blobs  map[v1.Hash]bool
	used   map[v1.Hash]bool
	depth  map[v1.Hash]int // of the documents so far: an index comes after what it names
	faults []string
}

func (g *graph) fault(format string, args ...any) {
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

// add checks one document, whose children were added before.
func (g *graph) add(h v1.Hash, raw []byte) {
	r, err := Refer(raw)
	if err != nil {
		g.fault("document %s: %v", h, err)
		return
	}
	depth := 1
	for _, d := range r.Documents {
		under, known := g.depth[d.Digest]
		if !known || g.sizes[d.Digest] != d.Size {
			g.fault("document %s names %s of %d bytes, which is not on the list before it", h, d.Digest, d.Size)
		}
		g.used[d.Digest] = true
		depth = max(depth, under+1)
	}
	for _, d := range r.Blobs {
		if !g.blobs[d.Digest] || g.sizes[d.Digest] != d.Size {
			g.fault("document %s names the blob %s of %d bytes, which is not on the list", h, d.Digest, d.Size)
		}
		g.used[d.Digest] = true
	}
	if depth > maxDepth {
		g.fault("document %s: indexes within indexes, more than %d deep", h, maxDepth)
	}
	g.depth[h] = depth
}

// item checks an item against its document. earlier has the items before it, and what their indexes name.
func (g *graph) item(i Item, documents map[v1.Hash][]byte, earlier map[string]bool) {
	h := i.Descriptor.Digest
	g.used[h] = true
	if i.Subject != nil && !earlier[i.Repository+"@"+i.Subject.String()] {
		g.fault("item %s belongs to %s, which is not before it in %s", h, i.Subject, i.Repository)
	}
	g.reach(i.Repository, h, documents, earlier, maxDepth)
	raw, ok := documents[h]
	if !ok {
		return
	}
	r, err := Refer(raw)
	if err != nil {
		return // reported by add
	}
	if r.MediaType != i.Descriptor.MediaType {
		g.fault("item %s has the media type %q on the list, and %q itself", h, i.Descriptor.MediaType, r.MediaType)
	}
	if i.Subject != nil && len(i.Tags) == 0 && (r.Subject == nil || r.Subject.Digest != *i.Subject) {
		g.fault("item %s belongs to %s on the list, but does not name it", h, i.Subject)
	}
}

func (g *graph) reach(repository string, h v1.Hash, documents map[v1.Hash][]byte, earlier map[string]bool, depth int) {
	key := repository + "@" + h.String()
	if earlier[key] || depth == 0 {
		return
	}
	earlier[key] = true
	r, err := Refer(documents[h])
	if err != nil {
		return
	}
	for _, d := range r.Documents {
		g.reach(repository, d.Digest, documents, earlier, depth-1)
	}
}

package writing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
)

// maxDepth bounds attachments of attachments: a signature of an SBOM of an image is 2.
const maxDepth = 4

// selection is everything of all artifacts, each digest once, in the order of the bundle.
type selection struct {
	items     []bundle.Item
	documents []oci.Document
	blobs     []bundle.Blob
	sources   map[v1.Hash]oci.Blob
	seen      map[v1.Hash]bool
	places    map[string]int // repository@digest of an item, and where it is in items
}

func selectAll(artifacts []Artifact) (*selection, error) {
	if len(artifacts) == 0 {
		return nil, errors.New("nothing is selected")
	}
	s := &selection{sources: map[v1.Hash]oci.Blob{}, seen: map[v1.Hash]bool{}, places: map[string]int{}}
	sorted := slices.Clone(artifacts)
	slices.SortStableFunc(sorted, func(a, b Artifact) int {
		return cmp.Or(cmp.Compare(bundle.Order(a.Kind), bundle.Order(b.Kind)), cmp.Compare(a.Repository, b.Repository),
			slices.Compare(a.Tags, b.Tags), compareHash(a.Content.Top().Desc.Digest, b.Content.Top().Desc.Digest))
	})
	for _, a := range sorted {
		for _, b := range a.Content.Blobs {
			s.addBlob(b)
		}
		for _, d := range a.Content.Documents {
			s.addDocument(d)
		}
		s.addItem(bundle.Item{Kind: a.Kind, Title: a.Title, Repository: a.Repository, Tags: a.Tags, Descriptor: a.Content.Top().Desc})
	}
	for _, a := range sorted {
		if err := s.attach(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func compareHash(a, b v1.Hash) int { return strings.Compare(a.Hex, b.Hex) }

func (s *selection) addBlob(b oci.Blob) {
	h := b.Desc.Digest
	if !s.seen[h] && h != bundle.EmptyConfig().Desc.Digest {
		s.seen[h] = true
		s.sources[h] = b
		s.blobs = append(s.blobs, bundle.Blob{Digest: h, Size: b.Desc.Size})
	}
}

func (s *selection) addDocument(d oci.Document) {
	if !s.seen[d.Desc.Digest] {
		s.seen[d.Desc.Digest] = true
		s.documents = append(s.documents, d)
	}
}

// addItem adds an item, or its tags to the same item. Descriptors lose what index.json must not say.
func (s *selection) addItem(i bundle.Item) {
	d := i.Descriptor
	i.Descriptor = v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest, Platform: d.Platform, ArtifactType: d.ArtifactType}
	key := i.Repository + "@" + d.Digest.String()
	at, known := s.places[key]
	if !known {
		at = len(s.items)
		s.places[key] = at
		s.items = append(s.items, i)
	}
	tags := slices.Concat(s.items[at].Tags, i.Tags)
	slices.Sort(tags)
	s.items[at].Tags = slices.Compact(tags)
}

// attach adds the attachments of an artifact, each after what it belongs to.
func (s *selection) attach(a Artifact) error {
	ready := map[v1.Hash]bool{}
	for _, d := range a.Content.Documents {
		ready[d.Desc.Digest] = true
	}
	rest := slices.Clone(a.Attachments)
	slices.SortStableFunc(rest, func(x, y oci.Attachment) int {
		return cmp.Or(cmp.Compare(bundle.Order(bundle.KindOf(x)), bundle.Order(bundle.KindOf(y))), compareHash(x.Subject, y.Subject),
			cmp.Compare(x.Tag, y.Tag), compareHash(x.Manifest.Desc.Digest, y.Manifest.Desc.Digest))
	})
	for range maxDepth {
		var later, now []oci.Attachment
		for _, x := range rest {
			if ready[x.Subject] {
				now = append(now, x)
			} else {
				later = append(later, x)
			}
		}
		for _, x := range now {
			s.addAttachment(a.Repository, x)
			ready[x.Manifest.Desc.Digest] = true
		}
		if rest = later; len(rest) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s in %s belongs to %s, which is not selected", rest[0].Manifest.Desc.Digest, a.Repository, rest[0].Subject)
}

func (s *selection) addAttachment(repository string, x oci.Attachment) {
	for _, b := range x.Blobs {
		s.addBlob(b)
	}
	for _, d := range x.Nested {
		s.addDocument(d)
	}
	s.addDocument(x.Manifest)
	i := bundle.Item{Kind: bundle.KindOf(x), Repository: repository, Subject: &x.Subject, Descriptor: x.Manifest.Desc}
	if x.Tag != "" {
		i.Tags = []string{x.Tag}
	}
	s.addItem(i)
}

// raw returns the documents by their digests.
func (s *selection) raw() map[v1.Hash][]byte {
	all := map[v1.Hash][]byte{}
	for _, d := range s.documents {
		all[d.Desc.Digest] = d.Raw
	}
	return all
}

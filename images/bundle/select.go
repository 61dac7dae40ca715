package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// selection is everything of all artifacts. The items are in the order of the list.
type selection struct {
	items     []Item
	documents map[v1.Hash][]byte
	blobs     map[v1.Hash]oci.Blob
}

// selectAll puts artifacts, in whatever order they are given, into that of the list: by kind, then what belongs to them.
func selectAll(artifacts []Artifact) (*selection, error) {
	if len(artifacts) == 0 {
		return nil, errors.New("nothing is selected")
	}
	s := &selection{documents: map[v1.Hash][]byte{}, blobs: map[v1.Hash]oci.Blob{}}
	sorted := slices.Clone(artifacts)
	slices.SortStableFunc(sorted, func(a, b Artifact) int {
		return cmp.Or(cmp.Compare(a.Kind.order(), b.Kind.order()), cmp.Compare(a.Repository, b.Repository),
			slices.Compare(a.Tags, b.Tags), compareHash(a.Content.Top().Desc.Digest, b.Content.Top().Desc.Digest))
	})
	for _, a := range sorted {
		item := Item{Kind: a.Kind, Title: a.Title, Repository: a.Repository, Tags: a.Tags, Descriptor: a.Content.Top().Desc}
		s.add(item, a.Content.Blobs, a.Content.Documents...)
	}
	for _, a := range sorted {
		if err := s.attach(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func compareHash(a, b v1.Hash) int { return strings.Compare(a.Hex, b.Hex) }

// add adds an item, or its tags to the same item. Descriptors lose what index.json must not say.
func (s *selection) add(i Item, blobs []oci.Blob, documents ...oci.Document) {
	for _, b := range blobs {
		if _, there := s.blobs[b.Desc.Digest]; !there {
			s.blobs[b.Desc.Digest] = b
		}
	}
	for _, d := range documents {
		s.documents[d.Desc.Digest] = d.Raw
	}
	d := i.Descriptor
	i.Descriptor = v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest, Platform: d.Platform, ArtifactType: d.ArtifactType}
	at := slices.IndexFunc(s.items, func(o Item) bool { return o.Repository == i.Repository && o.Descriptor.Digest == d.Digest })
	if at < 0 {
		at = len(s.items)
		s.items = append(s.items, i)
	}
	tags := slices.Concat(s.items[at].Tags, i.Tags)
	slices.Sort(tags)
	s.items[at].Tags = slices.Compact(tags)
}

// attach adds the attachments of an artifact, each after what it belongs to. They are given in such an order.
func (s *selection) attach(a Artifact) error {
	depth := map[v1.Hash]int{}
	for _, d := range a.Content.Documents {
		depth[d.Desc.Digest] = 1
	}
	for _, x := range a.Attachments {
		if depth[x.Subject] == 0 {
			return fmt.Errorf("%s in %s belongs to %s, which is not selected", x.Manifest.Desc.Digest, a.Repository, x.Subject)
		}
		depth[x.Manifest.Desc.Digest] = depth[x.Subject] + 1
	}
	sorted := slices.Clone(a.Attachments)
	slices.SortStableFunc(sorted, func(x, y oci.Attachment) int {
		return cmp.Or(cmp.Compare(depth[x.Subject], depth[y.Subject]), cmp.Compare(kindOf(x).order(), kindOf(y).order()),
			compareHash(x.Subject, y.Subject), cmp.Compare(x.Tag, y.Tag), compareHash(x.Manifest.Desc.Digest, y.Manifest.Desc.Digest))
	})
	for _, x := range sorted {
		item := Item{Kind: kindOf(x), Repository: a.Repository, Subject: &x.Subject, Descriptor: x.Manifest.Desc}
		if x.Tag != "" {
			item.Tags = []string{x.Tag}
		}
		s.add(item, x.Blobs, append(x.Nested, x.Manifest)...)
	}
	return nil
}

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

// entry is an artifact, or what belongs to one.
type entry struct {
	Item
	depth int // 0: an artifact; 1: what belongs to it; 2: what belongs to that
}

// selectAll puts artifacts and what belongs to them, in whatever order they are given, into that of
// the list: each after what it belongs to, and then by kind.
func selectAll(artifacts []Artifact) (*selection, error) {
	if len(artifacts) == 0 {
		return nil, errors.New("nothing is selected")
	}
	s := &selection{documents: map[v1.Hash][]byte{}, blobs: map[v1.Hash]oci.Blob{}}
	var all []entry
	for _, a := range artifacts {
		entries, err := s.entries(a)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(
			a.depth-b.depth,
			slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind),
			strings.Compare(a.Repository, b.Repository),
			slices.Compare(a.Tags, b.Tags),
			compareHash(a.Descriptor.Digest, b.Descriptor.Digest),
		)
	})
	for _, e := range all {
		s.add(e.Item)
	}
	return s, nil
}

// entries puts the content of an artifact into the selection, and returns it and what belongs to
// it.
func (s *selection) entries(a Artifact) ([]entry, error) {
	s.put(a.Content.Blobs, a.Content.Documents...)
	all := []entry{{Item: Item{
		Kind:       a.Kind,
		Title:      a.Title,
		Repository: a.Repository,
		Tags:       a.Tags,
		Descriptor: a.Content.Top().Desc,
	}}}
	depth := map[v1.Hash]int{}
	for _, d := range a.Content.Documents {
		depth[d.Desc.Digest] = 1
	}
	for _, x := range a.Attachments { // they are given after what they belong to
		d := x.Manifest.Desc
		below := depth[x.Subject]
		if below == 0 {
			return nil, fmt.Errorf(
				"%s in %s belongs to %s, which is not selected", d.Digest, a.Repository, x.Subject,
			)
		}
		depth[d.Digest] = below + 1
		s.put(x.Blobs, append(x.Nested, x.Manifest)...)
		i := Item{Kind: kindOf(x), Repository: a.Repository, Subject: &x.Subject, Descriptor: d}
		if x.Tag != "" {
			i.Tags = []string{x.Tag}
		}
		all = append(all, entry{i, below})
	}
	return all, nil
}

func compareHash(a, b v1.Hash) int { return strings.Compare(a.Hex, b.Hex) }

func (s *selection) put(blobs []oci.Blob, documents ...oci.Document) {
	for _, b := range blobs {
		s.blobs[b.Desc.Digest] = b
	}
	for _, d := range documents {
		s.documents[d.Desc.Digest] = d.Raw
	}
}

// add adds an item, or its tags to the same item. Descriptors lose what index.json must not say.
func (s *selection) add(i Item) {
	d := i.Descriptor
	i.Descriptor = v1.Descriptor{
		MediaType:    d.MediaType,
		Size:         d.Size,
		Digest:       d.Digest,
		Platform:     d.Platform,
		ArtifactType: d.ArtifactType,
	}
	at := slices.IndexFunc(
		s.items,
		func(o Item) bool { return o.Repository == i.Repository && o.Descriptor.Digest == d.Digest },
	)
	if at < 0 {
		at = len(s.items)
		s.items = append(s.items, i)
	}
	tags := slices.Concat(s.items[at].Tags, i.Tags)
	slices.Sort(tags)
	s.items[at].Tags = slices.Compact(tags)
}

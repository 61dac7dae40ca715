package bundle

import (
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Line is an item for people.
type Line struct {
	Kind   Kind
	Name   string // repository and tags; of an attachment what it belongs to
	Digest v1.Hash
	Bytes  int64 // of the blobs that it names, in the bundle or not
}

// Summary returns the items with their sizes. documents are those of the bundle, by digest.
func (l *List) Summary(documents map[v1.Hash][]byte) []Line {
	var all []Line
	for _, i := range l.Items {
		line := Line{Kind: i.Kind, Name: i.Repository, Digest: i.Descriptor.Digest, Bytes: total(documents, i.Descriptor.Digest, map[v1.Hash]bool{})}
		switch {
		case i.Subject != nil:
			line.Name = "of " + i.Subject.String()
		case len(i.Tags) > 0:
			line.Name += ":" + strings.Join(i.Tags, ",")
		}
		all = append(all, line)
	}
	return all
}

// total adds the sizes of the blobs below a document, each once.
func total(documents map[v1.Hash][]byte, h v1.Hash, seen map[v1.Hash]bool) (n int64) {
	refs, err := Refer(documents[h])
	if err != nil || seen[h] {
		return 0
	}
	seen[h] = true
	for _, d := range refs.Documents {
		n += total(documents, d.Digest, seen)
	}
	for _, d := range refs.Blobs {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			n += d.Size
		}
	}
	return n
}

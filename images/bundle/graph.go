package bundle

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// emptyConfig is the config of the bundle's manifest and of most artifacts. It is a member of every
// bundle and therefore on no list.
var emptyConfig = oci.BytesBlob(oci.EmptyConfig, []byte("{}"), nil)

// part is an item with everything that it needs.
type part struct {
	Item
	*oci.Content
	attachment oci.Attachment // if it belongs to another item
	depth      int            // 0: it belongs to nothing; 1: to such an item; 2: to one that does
}

// ref is its reference by digest.
func (p part) ref() string { return p.Repository + "@" + p.Descriptor.Digest.String() }

// partsOf puts artifacts and what belongs to them, in whatever order they are given, into that of
// the list: each after what it belongs to, and then by kind. The same artifact is there once, with
// all of its tags.
func partsOf(artifacts []Artifact) (parts []part, err error) {
	var all []part
	for _, a := range artifacts {
		some, err := a.parts()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b part) int {
		return cmp.Or(
			a.depth-b.depth,
			slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind),
			strings.Compare(a.Repository, b.Repository),
			slices.Compare(a.Tags, b.Tags),
			compareHash(a.Descriptor.Digest, b.Descriptor.Digest),
		)
	})
	for _, p := range all {
		at := slices.IndexFunc(parts, func(known part) bool { return known.ref() == p.ref() })
		if at < 0 {
			at = len(parts)
			parts = append(parts, p)
		}
		tags := slices.Concat(parts[at].Tags, p.Tags)
		slices.Sort(tags)
		parts[at].Tags = slices.Compact(tags)
	}
	return parts, nil
}

// parts returns the artifact, and then what belongs to it.
func (a Artifact) parts() ([]part, error) {
	all := []part{{
		Item: Item{
			Kind:       a.Kind,
			Title:      a.Title,
			Repository: a.Repository,
			Tags:       a.Tags,
			Descriptor: bare(a.Content.Top().Desc),
		},
		Content: a.Content,
	}}
	depth := map[v1.Hash]int{}
	for _, d := range a.Content.Documents {
		depth[d.Desc.Digest] = 1
	}
	for _, x := range a.Attachments { // they are given after what they belong to
		d := x.Manifest.Desc
		p := part{
			Item: Item{
				Kind: kindOf(x), Repository: a.Repository, Subject: &x.Subject, Descriptor: bare(d),
			},
			Content:    x.Content(),
			attachment: x,
			depth:      depth[x.Subject],
		}
		if p.depth == 0 {
			return nil, fmt.Errorf(
				"%s in %s belongs to %s, which is not selected", d.Digest, a.Repository, x.Subject,
			)
		}
		depth[d.Digest] = p.depth + 1
		if x.Tag != "" {
			p.Tags = []string{x.Tag}
		}
		all = append(all, p)
	}
	return all, nil
}

// bare returns a descriptor without what index.json must not say.
func bare(d v1.Descriptor) v1.Descriptor {
	return v1.Descriptor{
		MediaType:    d.MediaType,
		Size:         d.Size,
		Digest:       d.Digest,
		Platform:     d.Platform,
		ArtifactType: d.ArtifactType,
	}
}

func compareHash(a, b v1.Hash) int { return strings.Compare(a.Hex, b.Hex) }

// readParts follows the items of a list to everything that they need, among these documents. open
// opens a blob.
func readParts(
	items []Item,
	documents map[v1.Hash][]byte,
	open func(v1.Descriptor) (io.ReadCloser, error),
) (parts []part, err error) {
	from := oci.RemoteBlobs("the bundle", func(h v1.Hash) ([]byte, error) {
		raw, ok := documents[h]
		if !ok {
			return nil, fmt.Errorf("%s is none of its documents", h)
		}
		return raw, nil
	}, open)
	for _, i := range items {
		p, err := readPart(i, documents[i.Descriptor.Digest], from)
		if err != nil {
			return nil, fmt.Errorf("item %s in %s: %w", i.Descriptor.Digest, i.Repository, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func readPart(i Item, raw []byte, from oci.Blobs) (p part, err error) {
	p.Item = i
	artifact, err := oci.NewArtifact(raw, from)
	if err != nil {
		return p, err
	}
	p.Content, err = oci.Collect(artifact)
	if err != nil {
		return p, err
	}
	listed := i.Descriptor
	top := p.Top().Desc
	if top.MediaType != listed.MediaType || top.Size != listed.Size {
		return p, fmt.Errorf(
			"it is %q of %d bytes on the list, and %q of %d itself",
			listed.MediaType, listed.Size, top.MediaType, top.Size,
		)
	}
	if i.Subject == nil {
		return p, nil
	}
	p.attachment, err = oci.AttachmentOf(*i.Subject, i.tag(), artifact)
	if err != nil {
		return p, fmt.Errorf("it belongs to %s on the list: %w", i.Subject, err)
	}
	return p, nil
}

// graph is what items need. It is the same wherever it is made: create writes it into the list, and
// every reader compares it with the list.
type graph struct {
	parts     []part
	documents []Blob // each once; an index after what it names
	blobs     []Blob // each once, without the empty config
	content   map[v1.Hash]oci.Blob
	users     map[v1.Hash][]string // repositories that need a document or a blob
}

func newGraph(parts []part) (*graph, error) {
	g := &graph{parts: parts, content: map[v1.Hash]oci.Blob{}, users: map[v1.Hash][]string{}}
	for _, p := range parts {
		err := g.add(p)
		if err != nil {
			return nil, fmt.Errorf("item %s in %s: %w", p.Descriptor.Digest, p.Repository, err)
		}
	}
	return g, checkFiles(g)
}

func (g *graph) add(p part) error {
	if p.Subject != nil && !slices.Contains(g.users[*p.Subject], p.Repository) {
		return fmt.Errorf("it belongs to %s, which is not before it", p.Subject)
	}
	for _, d := range p.Documents {
		err := g.use(p.Repository, d.Blob(), &g.documents)
		if err != nil {
			return err
		}
	}
	for _, b := range p.Blobs {
		err := g.use(p.Repository, b, &g.blobs)
		if err != nil {
			return err
		}
	}
	return nil
}

// use adds a user of a document or a blob, and puts it into all unless it was there.
func (g *graph) use(repository string, b oci.Blob, all *[]Blob) error {
	d := b.Desc
	there, known := g.content[d.Digest]
	if known && there.Desc.Size != d.Size {
		return fmt.Errorf("%s is said to have %d bytes, and %d", d.Digest, there.Desc.Size, d.Size)
	}
	if !known && d.Digest != emptyConfig.Desc.Digest {
		*all = append(*all, Blob{d.Digest, d.Size})
	}
	g.content[d.Digest] = b
	if !slices.Contains(g.users[d.Digest], repository) {
		g.users[d.Digest] = append(g.users[d.Digest], repository)
	}
	return nil
}

package bundle

import (
	"fmt"
	"io"
	"slices"

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
}

// ref is its reference by digest.
func (p part) ref() string { return p.Repository + "@" + p.Descriptor.Digest.String() }

// graph is what items need. It is the same wherever it is made: create writes it into the list, and
// every reader compares it with the list.
type graph struct {
	parts     []part
	documents []Blob // each once; an index after what it names
	blobs     []Blob // each once, without the empty config
	sizes     map[v1.Hash]int64
	users     map[v1.Hash][]string // repositories that need a document or a blob
}

// collect follows items to everything that they need, among these documents. open opens a blob.
func collect(
	items []Item,
	documents map[v1.Hash][]byte,
	open func(v1.Descriptor) (io.ReadCloser, error),
) (*graph, error) {
	g := &graph{sizes: map[v1.Hash]int64{}, users: map[v1.Hash][]string{}}
	from := oci.RemoteBlobs("the bundle", func(h v1.Hash) ([]byte, error) {
		raw, ok := documents[h]
		if !ok {
			return nil, fmt.Errorf("%s is none of its documents", h)
		}
		return raw, nil
	}, open)
	for _, i := range items {
		err := g.add(i, documents[i.Descriptor.Digest], from)
		if err != nil {
			return nil, fmt.Errorf("item %s in %s: %w", i.Descriptor.Digest, i.Repository, err)
		}
	}
	return g, checkFiles(g)
}

func (g *graph) add(i Item, raw []byte, from oci.Blobs) error {
	artifact, err := oci.NewArtifact(raw, from)
	if err != nil {
		return err
	}
	content, err := oci.Collect(artifact)
	if err != nil {
		return err
	}
	p := part{Item: i, Content: content}
	listed := i.Descriptor
	top := content.Top().Desc
	if top.MediaType != listed.MediaType || top.Size != listed.Size {
		return fmt.Errorf(
			"it is %q of %d bytes on the list, and %q of %d itself",
			listed.MediaType, listed.Size, top.MediaType, top.Size,
		)
	}
	if i.Subject != nil {
		if !slices.Contains(g.users[*i.Subject], i.Repository) {
			return fmt.Errorf("it belongs to %s, which is not before it", i.Subject)
		}
		p.attachment, err = oci.AttachmentOf(*i.Subject, i.tag(), artifact)
		if err != nil {
			return fmt.Errorf("it belongs to %s on the list: %w", i.Subject, err)
		}
	}
	g.parts = append(g.parts, p)
	for _, d := range content.Documents {
		err := g.use(i.Repository, d.Desc, &g.documents)
		if err != nil {
			return err
		}
	}
	for _, b := range content.Blobs {
		err := g.use(i.Repository, b.Desc, &g.blobs)
		if err != nil {
			return err
		}
	}
	return nil
}

// use adds a user of a document or a blob, and puts it into all unless it was there.
func (g *graph) use(repository string, d v1.Descriptor, all *[]Blob) error {
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

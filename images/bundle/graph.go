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
		if raw, ok := documents[h]; ok {
			return raw, nil
		}
		return nil, fmt.Errorf("%s is none of its documents", h)
	}, open)
	for _, i := range items {
		artifact, err := oci.NewArtifact(documents[i.Descriptor.Digest], from)
		if err == nil {
			err = g.add(i, artifact)
		}
		if err != nil {
			return nil, fmt.Errorf("item %s in %s: %w", i.Descriptor.Digest, i.Repository, err)
		}
	}
	return g, nil
}

func (g *graph) add(i Item, artifact oci.Artifact) error {
	content, err := oci.Collect(artifact)
	if err != nil {
		return err
	}
	p := part{Item: i, Content: content}
	if top := content.Top().Desc; top.MediaType != i.Descriptor.MediaType ||
		top.Size != i.Descriptor.Size {
		return fmt.Errorf(
			"it is %q of %d bytes on the list, and %q of %d itself",
			i.Descriptor.MediaType,
			i.Descriptor.Size,
			top.MediaType,
			top.Size,
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
	for _, d := range content.Documents {
		err = g.use(err, i.Repository, d.Desc, &g.documents)
	}
	for _, b := range content.Blobs {
		err = g.use(err, i.Repository, b.Desc, &g.blobs)
	}
	g.parts = append(g.parts, p)
	return err
}

// use adds a user of a document or a blob, and puts it into all unless it was there, or there was
// an error.
func (g *graph) use(err error, repository string, d v1.Descriptor, all *[]Blob) error {
	size, known := g.sizes[d.Digest]
	switch {
	case err != nil:
		return err
	case known && size != d.Size:
		return fmt.Errorf("%s is said to have %d bytes, and %d", d.Digest, size, d.Size)
	case !known && d.Digest != emptyConfig.Desc.Digest:
		*all = append(*all, Blob{d.Digest, d.Size})
	}
	g.sizes[d.Digest] = d.Size
	if !slices.Contains(g.users[d.Digest], repository) {
		g.users[d.Digest] = append(g.users[d.Digest], repository)
	}
	return nil
}

// Package writing makes bundles: artifacts become one tar, or several parts of it. All documents are read
// before the first byte is written. Blobs then stream from where they are into the tar, and are verified on
// the way; nothing is stored twice.
package writing

import (
	"context"
	"errors"
	"fmt"
	"math"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

// partRoom is left in each part for what is known only when the parts are: their numbers in the list, and the
// signature.
const partRoom = 64 << 10

// Artifact is an image, an index or anything else with a place in a repository, and what belongs to it.
type Artifact struct {
	Kind        bundle.Kind
	Title       string // for people; may be empty
	Repository  string // at the origin, with its registry
	Tags        []string
	Content     *oci.Content
	Attachments []oci.Attachment
}

// Options say what a bundle is like.
type Options struct {
	Origin   string         // repository whose name is replaced at the site
	Created  int64          // seconds since 1970
	Tool     string         // program and version
	PartSize int64          // bytes; every part is smaller; 0: one file
	Since    []bundle.Stock // what the site has
	Sign     bundle.Signer  // nil: unsigned
}

// Plan is a bundle that is known in every byte except the content of its blobs.
type Plan struct {
	List     *bundle.List
	Manifest v1.Descriptor // of the bundle
	Sizes    []int64       // of the parts, in bytes

	head    []member             // of every part
	sources map[v1.Hash]oci.Blob // of all blobs that are not absent
}

// member is a member of the tar.
type member struct {
	name string
	blob oci.Blob
}

// Prepare makes the plan of a bundle. It opens no blob. It fails when two artifacts contradict each other,
// and when a blob does not fit into a part.
func Prepare(ctx context.Context, o Options, artifacts []Artifact) (*Plan, error) {
	p, err := prepare(ctx, o, artifacts)
	if err != nil {
		return nil, fmt.Errorf("make the bundle: %w", err)
	}
	return p, nil
}

func prepare(ctx context.Context, o Options, artifacts []Artifact) (*Plan, error) {
	s, err := selectAll(artifacts)
	if err != nil {
		return nil, &bundle.SelectionError{Err: err}
	}
	l := &bundle.List{Created: o.Created, Tool: o.Tool, Origin: o.Origin, Items: s.items, Blobs: s.blobs}
	for _, d := range s.documents {
		l.Documents = append(l.Documents, bundle.Blob{Digest: d.Desc.Digest, Size: d.Desc.Size})
	}
	l.Absent = bundle.Known(l.Blobs, o.Since)
	p := &Plan{List: l, sources: s.sources}
	if err := p.cut(ctx, o, s); err != nil {
		return nil, err
	}
	if faults := l.CheckDocuments(s.raw()); len(faults) > 0 {
		return nil, &bundle.SelectionError{Err: errors.New(faults[0])}
	}
	return p, nil
}

// cut divides the blobs over the parts.
func (p *Plan) cut(ctx context.Context, o Options, s *selection) error {
	p.List.Parts = []int{math.MaxInt}
	here := p.List.Present()[0]
	p.List.Parts = []int{len(here)}
	if o.PartSize > 0 {
		if err := p.compose(ctx, nil, s); err != nil {
			return err
		}
		room := o.PartSize - p.headSize() - partRoom - tarfile.TrailerSize - 1
		var err error
		if p.List.Parts, err = divide(here, room); err != nil {
			return fmt.Errorf("%w into a part of less than %d bytes, %d of which are documents: give larger parts", err, o.PartSize, o.PartSize-room)
		}
	}
	return p.compose(ctx, o.Sign, s)
}

// divide returns how many blobs each part has.
func divide(blobs []bundle.Blob, room int64) ([]int, error) {
	parts, used := []int{0}, int64(0)
	for _, b := range blobs {
		space := tarfile.Space(b.Size)
		if space > room {
			return nil, fmt.Errorf("%s has %d bytes and does not fit", b.Digest, b.Size)
		}
		if used+space > room {
			parts, used = append(parts, 0), 0
		}
		parts[len(parts)-1]++
		used += space
	}
	return parts, nil
}

// compose makes the list's bytes, the manifest, the signature and index.json.
func (p *Plan) compose(ctx context.Context, sign bundle.Signer, s *selection) error {
	raw, err := p.List.Encode()
	if err != nil {
		return &bundle.SelectionError{Err: err}
	}
	manifest, err := bundle.Manifest(raw)
	if err != nil {
		return err
	}
	p.Manifest = manifest.Desc
	own := []oci.Blob{document(manifest), oci.BytesBlob(bundle.MediaType, raw, nil), bundle.EmptyConfig()}
	var signature *v1.Descriptor
	if sign != nil {
		a, err := sign(ctx, manifest.Desc)
		if err != nil {
			return fmt.Errorf("sign it: %w", err)
		}
		signature = &a.Manifest.Desc
		own = append(own, document(a.Manifest))
		for _, b := range a.Blobs {
			if b.Desc.Digest != bundle.EmptyConfig().Desc.Digest {
				own = append(own, b)
			}
		}
	}
	index, err := p.List.Index(manifest.Desc, signature)
	if err != nil {
		return err
	}
	for _, d := range s.documents {
		own = append(own, document(d))
	}
	p.head = []member{{tarfile.LayoutName, oci.BytesBlob("", []byte(bundle.LayoutVersion), nil)}, {tarfile.IndexName, oci.BytesBlob("", index, nil)}}
	for _, b := range own {
		p.head = append(p.head, member{tarfile.BlobName(b.Desc.Digest.Hex), b})
	}
	p.measure()
	return nil
}

// measure computes the sizes of the parts.
func (p *Plan) measure() {
	p.Sizes = nil
	for _, part := range p.List.Present() {
		size := p.headSize() + tarfile.TrailerSize
		for _, b := range part {
			size += tarfile.Space(b.Size)
		}
		p.Sizes = append(p.Sizes, size)
	}
}

func (p *Plan) headSize() (n int64) {
	for _, m := range p.head {
		n += tarfile.Space(m.blob.Desc.Size)
	}
	return n
}

func document(d oci.Document) oci.Blob { return oci.BytesBlob(d.Desc.MediaType, d.Raw, nil) }

// members returns those of a part.
func (p *Plan) members(part int) []member {
	all := p.head[:len(p.head):len(p.head)]
	for _, b := range p.List.Present()[part] {
		all = append(all, member{tarfile.BlobName(b.Digest.Hex), p.sources[b.Digest]})
	}
	return all
}

// Package writing makes bundles: artifacts become one tar. All documents are read
// before the first byte is written. Blobs then stream from where they are into the tar, and are verified on
// the way; nothing is stored twice.
package writing

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

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
	Origin  string         // repository whose name is replaced at the site
	Created int64          // seconds since 1970
	Tool    string         // program and version
	Since   []bundle.Stock // what the site has
	Sign    bundle.Signer  // nil: unsigned
}

// Plan is a bundle that is known in every byte except the content of its blobs.
type Plan struct {
	List     *bundle.List
	Manifest v1.Descriptor // of the bundle
	Size     int64         // of the file, in bytes

	members []member
	sources map[v1.Hash]oci.Blob // of all blobs that are not absent
}

// member is a member of the tar.
type member struct {
	name string
	blob oci.Blob
}

// Prepare makes the plan of a bundle. It opens no blob. It fails when two artifacts contradict each other.
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
	if err := p.compose(ctx, o.Sign, s); err != nil {
		return nil, err
	}
	if faults := l.CheckDocuments(s.raw()); len(faults) > 0 {
		return nil, &bundle.SelectionError{Err: errors.New(faults[0])}
	}
	return p, nil
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
	for _, b := range p.List.Present() {
		own = append(own, p.sources[b.Digest])
	}
	p.members = []member{{tarfile.LayoutName, oci.BytesBlob("", []byte(bundle.LayoutVersion), nil)}, {tarfile.IndexName, oci.BytesBlob("", index, nil)}}
	for _, b := range own {
		p.members = append(p.members, member{tarfile.BlobName(b.Desc.Digest.Hex), b})
	}
	p.Size = tarfile.TrailerSize
	for _, m := range p.members {
		p.Size += tarfile.Space(m.blob.Desc.Size)
	}
	return nil
}

func document(d oci.Document) oci.Blob { return oci.BytesBlob(d.Desc.MediaType, d.Raw, nil) }

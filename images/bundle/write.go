package bundle

import (
	"context"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// Artifact is an image, an index or anything else with a place in a repository, and what belongs to
// it.
type Artifact struct {
	Kind        ItemKind
	Title       string // for people: of a chart its name and version
	Repository  string // at the origin, with its registry
	Tags        []string
	Content     *oci.Content
	Attachments []oci.Attachment
}

// Options say what a bundle is like.
type Options struct {
	Origin  string           // repository whose name is replaced at the site
	Created int64            // seconds since 1970
	Tool    string           // program and version
	Since   []Stock          // what the site has
	Sign    signature.Signer // nil: unsigned
}

// Prepared is a bundle that is known in every byte except the content of its blobs.
type Prepared struct {
	List     *List
	Manifest v1.Descriptor // of the bundle
	Size     int64         // of the file, in bytes

	members []oci.Member
}

// Prepare makes the plan of a bundle. It opens no blob. The error is of kind failure.Usage when the
// artifacts make no bundle.
func Prepare(ctx context.Context, o Options, artifacts []Artifact) (p *Prepared, err error) {
	defer failure.Wrap(&err, "make the bundle")
	parts, err := partsOf(artifacts)
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	g, err := newGraph(parts)
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	l := &List{
		Created:   o.Created,
		Tool:      o.Tool,
		Origin:    o.Origin,
		Documents: g.documents,
		Blobs:     g.blobs,
		Absent:    known(g.blobs, o.Since),
	}
	for _, p := range parts {
		l.Items = append(l.Items, p.Item)
	}
	list, err := l.Encode()
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	p = &Prepared{List: l, Size: trailerSize}
	err = p.addOwn(ctx, o.Sign, list)
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Concat(l.Documents, l.present()) {
		p.add(g.content[b.Digest])
	}
	for _, m := range p.members {
		p.Size += oci.MemberSize(m.Blob.Desc.Size)
	}
	return p, nil
}

func (p *Prepared) add(b oci.Blob) {
	p.members = append(p.members, oci.Member{Name: blobFolder + b.Desc.Digest.Hex, Blob: b})
}

// addOwn adds what comes before the documents: index.json, and what belongs to the bundle itself.
func (p *Prepared) addOwn(ctx context.Context, key signature.Signer, list []byte) error {
	manifest, err := manifestOf(list)
	if err != nil {
		return err
	}
	p.Manifest = manifest.Desc
	p.members = make([]oci.Member, 2) // layout and index.json, which names the signature
	p.add(oci.BytesBlob("", manifest.Raw, nil))
	p.add(oci.BytesBlob("", list, nil))
	p.add(emptyConfig)
	var signed *v1.Descriptor
	if key != nil {
		request := signature.Request{
			Subjects: []signature.Subject{{Descriptor: manifest.Desc}},
			Format:   signature.Bundle,
		}
		all, err := signature.Sign(ctx, request, key)
		if err != nil {
			return fmt.Errorf("sign it: %w", err)
		}
		signed = &all[0].Manifest.Desc
		p.add(oci.BytesBlob("", all[0].Manifest.Raw, nil))
		for _, b := range all[0].Blobs {
			if b.Desc.Digest != emptyConfig.Desc.Digest {
				p.add(b)
			}
		}
	}
	index, err := p.List.index(manifest.Desc, signed)
	p.members[0] = oci.Member{
		Name: layoutName,
		Blob: oci.BytesBlob("", []byte(oci.LayoutVersion), nil),
	}
	p.members[1] = oci.Member{Name: indexName, Blob: oci.BytesBlob("", index, nil)}
	return err
}

// Write writes the bundle. Blobs stream from where they are, each compared with its digest on the
// way. progress, if there is one, is called often, with the bytes that are written and all of them.
func (p *Prepared) Write(
	ctx context.Context,
	w io.Writer,
	progress func(done, total int64),
) (err error) {
	defer failure.Wrap(&err, "write the bundle")
	var written func(int64)
	if progress != nil {
		written = func(done int64) { progress(done, p.Size) }
	}
	return oci.WriteTar(ctx, w, p.members, written)
}

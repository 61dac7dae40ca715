// Package attestation says what is attached to finished images: who signs the index and the images in it,
// under which names, and which documents (SBOM, provenance, VEX) belong to them. It attaches that where an
// image is or will be: in a registry, a layout or an archive; and it judges what an image has.
//
// It makes neither keys nor documents. images/signature has the formats, images/registry the transfers.
package attestation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/signature"
)

// Document is JSON about images.
type Document struct {
	Subjects []v1.Hash // the indexes and images that it is about; nil: the artifact and every image in it
	Type     string    // of the predicate
	Body     []byte
	// Referrer is the artifact type of a referrer that has the document as it is, for programs that do not read
	// attestations; "": there is none.
	Referrer string
	// Key is the digest of what the document was made from. The referrer has it as [recipe.LabelKey], so that a
	// later build finds the document; "": it is not known.
	Key string
}

// Plan says what is attached to an artifact.
type Plan struct {
	Signer     signature.Signer // nil: nothing is signed, and only referrers are attached
	Format     signature.Format
	Repository string   // REGISTRY/PATH that signatures state
	Tags       []string // that signatures state, and that the artifact gets
	Documents  []Document
}

// Empty says whether there is nothing to attach.
func (p Plan) Empty() bool { return p.Signer == nil && len(p.Documents) == 0 }

// Request returns what is to be signed of an artifact that has these attachments.
func (p Plan) Request(t oci.Artifact, have []oci.Attachment) (signature.Request, error) {
	r := signature.Request{Repository: p.Repository, Tags: p.Tags, Format: p.Format}
	var err error
	if r.Subjects, err = subjects(t, have); err != nil {
		return r, err
	}
	for _, d := range p.Documents {
		about, err := d.about(r.Subjects)
		if err != nil {
			return r, err
		}
		for _, i := range about {
			r.Subjects[i].Predicates = append(r.Subjects[i].Predicates, signature.Predicate{Type: d.Type, Body: d.Body})
		}
	}
	return r, nil
}

// Attachments returns what is to be attached to an artifact that has those attachments: nothing that it has
// already, as far as the signer's key tells.
func (p Plan) Attachments(ctx context.Context, t oci.Artifact, have []oci.Attachment) (all []oci.Attachment, err error) {
	r, err := p.Request(t, have)
	if err != nil {
		return nil, err
	}
	for _, d := range p.Documents {
		if d.Referrer == "" {
			continue
		}
		about, err := d.about(r.Subjects)
		if err != nil {
			return nil, err
		}
		for _, i := range about {
			a, err := oci.NewReferrer(r.Subjects[i].Descriptor, d.Referrer, []oci.Blob{oci.BytesBlob(types.MediaType(d.Referrer), d.Body, nil)},
				d.annotations())
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(have, func(h oci.Attachment) bool { return h.Manifest.Desc.Digest == a.Manifest.Desc.Digest }) {
				all = append(all, a)
			}
		}
	}
	if p.Signer == nil {
		return all, nil
	}
	signed, err := signature.Sign(ctx, r, p.Signer)
	return append(all, signed...), err
}

func (d Document) annotations() map[string]string {
	if d.Key == "" {
		return nil
	}
	return map[string]string{recipe.LabelKey: d.Key}
}

// subjects are the artifact, which comes first, and the images in it.
func subjects(t oci.Artifact, have []oci.Attachment) (all []signature.Subject, err error) {
	content, err := oci.Collect(t)
	if err != nil {
		return nil, fmt.Errorf("read what is to be signed: %w", err)
	}
	for _, d := range slices.Backward(content.Documents) {
		s := signature.Subject{Descriptor: d.Desc}
		for _, a := range have {
			if a.Subject == d.Desc.Digest {
				s.Attachments = append(s.Attachments, a)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// about returns the positions of the subjects that the document is about.
func (d Document) about(all []signature.Subject) (found []int, err error) {
	if !json.Valid(d.Body) {
		return nil, fmt.Errorf("the document of type %s is no JSON", d.Type)
	}
	for i, s := range all {
		if d.Subjects == nil || slices.Contains(d.Subjects, s.Descriptor.Digest) {
			found = append(found, i)
		}
	}
	if len(found) < len(d.Subjects) {
		return nil, fmt.Errorf("the document of type %s is about %s, and not all of that is in the image", d.Type, d.Subjects)
	}
	return found, nil
}

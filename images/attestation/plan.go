// Package attestation says what is attached to finished images: who signs the index and the images
// in it, under which names, and which documents (SBOM, provenance, VEX) belong to them. It attaches
// that where an image is or will be: in a registry, a layout or an archive; it judges what an image
// has, and builds one again from its provenance.
//
// It makes neither keys nor documents. images/signature has the formats, images/registry the
// transfers.
package attestation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// Publication says what is attached to an artifact.
type Publication struct {
	Signer     signature.Signer // nil: nothing is signed, and only referrers are attached
	Format     signature.Format
	Repository string   // REGISTRY/PATH that signatures state
	Tags       []string // that signatures state, and that the artifact gets
	Documents  []Document
}

// Empty says whether there is nothing to attach.
func (p Publication) Empty() bool { return p.Signer == nil && len(p.Documents) == 0 }

// Request returns what is to be signed of an artifact that has these attachments, and the referrers
// with documents that it lacks.
func (p Publication) Request(
	t oci.Artifact,
	have []oci.Attachment,
) (r signature.Request, referrers []oci.Attachment, err error) {
	r = signature.Request{Repository: p.Repository, Tags: p.Tags, Format: p.Format}
	r.Subjects, err = subjects(t, have)
	if err != nil {
		return r, nil, err
	}
	for _, d := range p.Documents {
		about, err := d.about(r.Subjects)
		if err != nil {
			return r, nil, err
		}
		for _, i := range about {
			s := &r.Subjects[i]
			s.Predicates = append(s.Predicates, signature.Predicate{Type: d.Type, Body: d.Body})
			if d.Referrer == "" {
				continue
			}
			var annotations map[string]string
			if d.Key != "" {
				annotations = map[string]string{recipe.LabelKey: d.Key}
			}
			blob := oci.BytesBlob(types.MediaType(d.Referrer), d.Body, nil)
			a, err := oci.NewReferrer(s.Descriptor, d.Referrer, []oci.Blob{blob}, annotations)
			if err != nil {
				return r, nil, err
			}
			if !slices.ContainsFunc(
				have,
				func(h oci.Attachment) bool { return h.Manifest.Desc.Digest == a.Manifest.Desc.Digest },
			) {
				referrers = append(referrers, a)
			}
		}
	}
	return r, referrers, nil
}

// Attachments returns what is to be attached to an artifact that has those attachments: nothing
// that it has already, as far as the signer's key tells.
func (p Publication) Attachments(
	ctx context.Context,
	t oci.Artifact,
	have []oci.Attachment,
) ([]oci.Attachment, error) {
	r, referrers, err := p.Request(t, have)
	if err != nil || p.Signer == nil {
		return referrers, err
	}
	signed, err := signature.Sign(ctx, r, p.Signer)
	return append(referrers, signed...), err
}

// subjects are the artifact, which comes first, and the images in it.
func subjects(t oci.Artifact, have []oci.Attachment) ([]signature.Subject, error) {
	content, err := oci.Collect(t)
	if err != nil {
		return nil, fmt.Errorf("read what is to be signed: %w", err)
	}
	slices.Reverse(content.Documents)
	return signature.Subjects(content.Documents, have), nil
}

// Push pushes an artifact to the repository of the plan, with what the plan attaches. The tags move
// last, when the signatures are there: an admission controller never sees the tag of an image
// without them.
func (p Publication) Push(ctx context.Context, c *registry.Client, t oci.Artifact) error {
	if !p.Empty() {
		digest, err := t.Digest()
		if err != nil {
			return err
		}
		pinned := p.Repository + "@" + digest.String()
		if _, _, err := c.Push(ctx, pinned, t); err != nil {
			return err
		}
		have, err := c.Target().Attachments(ctx, pinned)
		if err != nil {
			return err
		}
		all, err := p.Attachments(ctx, t, have)
		if err != nil {
			return fmt.Errorf("sign %s: %w", pinned, err)
		}
		if _, err := c.Attach(ctx, pinned, all...); err != nil {
			return err
		}
	}
	_, _, err := c.Push(ctx, p.Repository+":"+p.Tags[0], t, p.Tags[1:]...)
	return err
}

// Write writes an artifact to an output, with what the plan attaches, under all tags; an archive
// holds only the first. It returns the references.
func (p Publication) Write(
	ctx context.Context,
	out oci.Output,
	t oci.Artifact,
) (refs []string, err error) {
	all, err := p.attachmentsFor(ctx, out, t)
	if err != nil {
		return nil, fmt.Errorf("sign %s:%s: %w", out, p.Tags[0], err)
	}
	tags := p.Tags
	if out.Kind != "oci" {
		tags = tags[:1]
	}
	for _, tag := range tags {
		ref, err := out.Write(ctx, p.Repository, tag, t, all...)
		if err != nil {
			return refs, err
		}
		refs = append(refs, ref)
		all = nil // they belong to the digest
	}
	return refs, nil
}

// attachmentsFor returns what an artifact in an output lacks.
func (p Publication) attachmentsFor(
	ctx context.Context,
	out oci.Output,
	t oci.Artifact,
) (have []oci.Attachment, err error) {
	if p.Empty() {
		return nil, nil
	}
	if out.Kind == "oci" {
		have, err = oci.LocalAttachments(ctx, out.String()+":"+p.Tags[0])
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the layout does not have the tag yet
		return nil, err
	}
	return p.Attachments(ctx, t, have)
}

package attestation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// Push pushes an artifact to the repository of the plan, with what the plan attaches. The tags move last,
// when the signatures are there: an admission controller never sees the tag of an image without them.
func (p Plan) Push(ctx context.Context, c *registry.Client, t oci.Artifact) error {
	ref := p.Repository + ":" + p.Tags[0]
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
	_, _, err := c.Push(ctx, ref, t, p.Tags[1:]...)
	return err
}

// Write writes an artifact to an output, with what the plan attaches, under all tags; an archive holds only
// the first. It returns the references.
func (p Plan) Write(ctx context.Context, out oci.Output, t oci.Artifact) (refs []string, err error) {
	tags := p.Tags
	if out.Kind != "oci" {
		tags = tags[:1]
	}
	for i, tag := range tags {
		var all []oci.Attachment
		if i == 0 && !p.Empty() {
			var have []oci.Attachment
			if out.Kind == "oci" {
				have, err = oci.LocalAttachments(ctx, out.String()+":"+tag)
			}
			if err == nil || errors.Is(err, fs.ErrNotExist) { // the layout does not have the tag yet
				all, err = p.Attachments(ctx, t, have)
			}
			if err != nil {
				return refs, fmt.Errorf("sign %s:%s: %w", out, tag, err)
			}
		}
		ref, err := out.Write(ctx, p.Repository, tag, t, all...)
		if err != nil {
			return refs, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

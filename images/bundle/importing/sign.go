package importing

import (
	"context"
	"fmt"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// sign adds the site's signatures, under the names of the site, to an item that is no attachment: of an
// index, and of each image in it. What is signed by the key already is not signed again. Nothing has a tag
// before it is signed.
func (t *transfer) sign(ctx context.Context, x *item) error {
	if x.Subject != nil || t.Sign == nil {
		return nil
	}
	ref := x.Repository + "@" + x.Descriptor.Digest.String()
	there, err := t.registry.Attachments(ctx, ref)
	if err != nil {
		return err
	}
	request := signature.Request{Repository: x.Repository, Tags: x.Tags, Format: signature.Legacy}
	for _, d := range x.documents {
		s := signature.Subject{Descriptor: d.Desc}
		for _, a := range there {
			if a.Subject == d.Desc.Digest {
				s.Attachments = append(s.Attachments, a)
			}
		}
		request.Subjects = append(request.Subjects, s)
	}
	all, err := signature.Sign(ctx, request, t.Sign)
	if err != nil {
		return fmt.Errorf("sign %s: %w", ref, err)
	}
	t.attachments[x.Repository] = append(t.attachments[x.Repository], all...)
	t.result.Signed += countSigned(all)
	return nil
}

// countSigned returns how many manifests got a signature.
func countSigned(all []oci.Attachment) int {
	subjects := map[string]bool{}
	for _, a := range all {
		subjects[a.Subject.String()] = true
	}
	return len(subjects)
}

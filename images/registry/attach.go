package registry

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// updateAttempts is how often a tag that other programs change at the same time is changed.
const updateAttempts = 5

// Attach pushes attachments into the repository of ref; its tag and digest do not matter. A manifest with a
// tag (.sig, .att) extends the one that the registry has under it. A referrer is pushed by its digest; if the
// registry has no referrers API, Attach adds it to the index under the fallback tag. What is there already is
// not sent again. Changes of one tag wait for each other within this client; other programs' changes are
// found by reading the tag again. Errors: *Error; *fetch.MismatchError when a blob does not match its digest.
func (c *Client) Attach(ctx context.Context, ref string, all ...oci.Attachment) (Stats, error) {
	r, err := parseReference(ref, c.opts.Insecure)
	if err != nil || len(all) == 0 {
		return Stats{}, err
	}
	p := &push{Client: c, ref: r}
	for _, a := range all {
		p.candidates(nil, a.Blobs)
	}
	if err = p.open(ctx); err == nil {
		err = p.attach(ctx, all)
	}
	return p.stats, failure(ctx, "push", ref, r.repo.RegistryStr(), err)
}

func (p *push) attach(ctx context.Context, all []oci.Attachment) error {
	var subjects []v1.Hash // of referrers that the registry did not list, in order
	unlisted := map[v1.Hash][]v1.Descriptor{}
	for _, a := range all {
		p.stats.Attachments++
		if a.Tag != "" {
			if err := p.extend(ctx, a); err != nil {
				return err
			}
			continue
		}
		listed, err := p.refer(ctx, a)
		if err != nil {
			return err
		}
		if !listed {
			if unlisted[a.Subject] == nil {
				subjects = append(subjects, a.Subject)
			}
			unlisted[a.Subject] = append(unlisted[a.Subject], a.Manifest.Desc)
		}
	}
	for _, s := range subjects {
		if err := p.list(ctx, s, unlisted[s]); err != nil {
			return err
		}
	}
	return nil
}

// refer pushes a referrer, and reports whether the registry lists it by itself.
func (p *push) refer(ctx context.Context, a oci.Attachment) (listed bool, err error) {
	name := a.Manifest.Desc.Digest.String()
	exists, err := p.hasDocument(ctx, name, a.Manifest)
	if err != nil {
		return false, err
	}
	if exists {
		p.unchanged(a.Blobs, a.Manifest, []string{name})
	} else {
		if err := p.pushParts(ctx, a.Blobs, a.Nested); err != nil {
			return false, err
		}
		header, err := p.put(ctx, name, a.Manifest)
		if err != nil || header.Get("OCI-Subject") == a.Subject.String() {
			return true, err
		}
	}
	return p.listsReferrers(ctx, a.Subject)
}

// listsReferrers reports whether the registry has the referrers API. It asks once for a repository.
func (p *push) listsReferrers(ctx context.Context, subject v1.Hash) (bool, error) {
	repository := p.ref.repo.Name()
	p.Client.mu.Lock()
	known, asked := p.apis[repository]
	p.Client.mu.Unlock()
	if asked {
		return known, nil
	}
	_, known, err := p.referrers(ctx, p.s, subject)
	if err != nil {
		return false, err
	}
	p.Client.mu.Lock()
	defer p.Client.mu.Unlock()
	p.apis[repository] = known
	return known, nil
}

// list adds referrers to the index under the fallback tag.
func (p *push) list(ctx context.Context, subject v1.Hash, more []v1.Descriptor) error {
	return p.update(ctx, oci.ReferrersTag(subject), func(m oci.Manifest) (oci.Attachment, error) {
		raw, err := oci.AddReferrers(m.Raw, more)
		return oci.Attachment{Manifest: oci.Document{Raw: raw, Desc: v1.Descriptor{
			MediaType: types.OCIImageIndex, Size: int64(len(raw)), Digest: oci.HashOf(raw)}}}, err
	})
}

// extend pushes an attachment that has a tag.
func (p *push) extend(ctx context.Context, a oci.Attachment) error {
	return p.update(ctx, a.Tag, func(m oci.Manifest) (oci.Attachment, error) {
		if m.Raw == nil {
			return a, nil
		}
		return a.Extend(m, func(d v1.Descriptor) (raw []byte, err error) {
			err = p.pool.Try(ctx, p.opts.Attempts, p.limits.request, func(ctx context.Context) (err error) {
				raw, err = p.s.Blob(ctx, d, oci.MaxConfig)
				return err
			})
			return raw, err
		})
	})
}

// update changes the manifest under a tag: change gets the one that is there, which is empty if there is
// none, and returns the one to push, with the blobs that the registry may lack. After that it reads the tag
// again: another program may have replaced it at the same time by one without our change.
func (p *push) update(ctx context.Context, tag string, change func(oci.Manifest) (oci.Attachment, error)) error {
	defer p.lockTag(p.ref.repo.Name() + ":" + tag)()
	for range updateAttempts {
		there, err := p.tagged(ctx, p.s, tag)
		if err != nil {
			return err
		}
		a, err := change(there)
		if err != nil {
			return &itemError{"tag " + tag, err}
		}
		if bytes.Equal(there.Raw, a.Manifest.Raw) {
			p.reportState("manifest "+tag, "", a.Manifest.Desc.Size, Exists)
			return nil
		}
		if err := p.pushParts(ctx, a.Blobs, a.Nested); err != nil {
			return err
		}
		if _, err := p.put(ctx, tag, a.Manifest); err != nil {
			return err
		}
	}
	return &itemError{"tag " + tag, fmt.Errorf("other programs replaced it %d times while it was changed: try again", updateAttempts)}
}

// lockTag waits until no other goroutine of this client changes a tag.
func (c *Client) lockTag(name string) (unlock func()) {
	c.mu.Lock()
	l := c.tagLocks[name]
	if l == nil {
		l = &sync.Mutex{}
		c.tagLocks[name] = l
	}
	c.mu.Unlock()
	l.Lock()
	return l.Unlock
}

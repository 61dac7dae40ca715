package bundle

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// pushBlobs pushes the blobs of the bundle, those that can only be mounted, and the empty config.
func (t *transfer) pushBlobs(ctx context.Context) error {
	here := t.bundle.List.present()
	var err error
	if t.bundle.file == nil {
		err = t.bundle.pass(ctx, t.pushBlob)
	} else {
		err = t.parallel(ctx, len(here), func(ctx context.Context, n int) error {
			b, _ := t.bundle.reader(here[n])
			return t.pushBlob(ctx, b)
		})
	}
	for _, a := range t.bundle.List.Absent {
		if err == nil {
			err = t.pushBlob(ctx, t.absent(v1.Descriptor{Digest: a.Digest, Size: a.Size}))
		}
	}
	if err == nil {
		err = t.pushBlob(ctx, emptyConfig)
	}
	return err
}

// absent is a blob that the registry has: it can be mounted, and not be sent.
func (t *transfer) absent(d v1.Descriptor) oci.Blob {
	return oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s is in another repository, from which the registry does not mount it: here it is %w", d.Digest, ErrLacks)
	}}
}

// pushBlob makes sure that all repositories that need a blob have it: it goes to one, and is mounted into the others.
func (t *transfer) pushBlob(ctx context.Context, b oci.Blob) error {
	h := b.Desc.Digest
	for _, repository := range t.needs.users[h] {
		t.mu.Lock()
		from := slices.Concat(t.holders[h], t.MountFrom)
		t.mu.Unlock()
		state, err := t.client.PushBlob(ctx, repository, b, from...)
		if err != nil {
			return err
		}
		t.hold(h, repository)
		if state == registry.Done {
			t.mu.Lock()
			t.result.Sent++
			t.result.Bytes += b.Desc.Size
			t.mu.Unlock()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done += b.Desc.Size; t.Progress != nil {
		t.Progress(min(t.done, t.total), t.total)
	}
	return nil
}

// pushNames pushes manifests, then what belongs to them, then the signatures of the site, then tags.
func (t *transfer) pushNames(ctx context.Context) error {
	artifacts := slices.DeleteFunc(slices.Clone(t.result.Done), func(i Item) bool { return i.Subject != nil })
	g, err := collect(artifacts, t.bundle.documents)
	if err != nil {
		return err
	}
	for _, d := range g.documents {
		for _, repository := range g.users[d.Digest] {
			if err := t.pushName(ctx, repository, d.Digest.String(), d.Digest); err != nil {
				return err
			}
		}
	}
	if err := t.attach(ctx, t.result.Done, t.attachments); err != nil {
		return err
	}
	if t.Sign != nil {
		if err := t.attach(ctx, artifacts, t.signatures); err != nil {
			return err
		}
	}
	for _, i := range artifacts {
		for _, tag := range i.Tags {
			if err := t.pushName(ctx, i.Repository, tag, i.Descriptor.Digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// pushName makes a tag or a digest lead to a document.
func (t *transfer) pushName(ctx context.Context, repository, name string, h v1.Hash) error {
	same, err := t.client.HasManifest(ctx, repository, name, h)
	if err == nil && !same {
		err = t.client.PushManifest(ctx, repository, name, documentOf(t.bundle.documents[h]))
	}
	return err
}

// attach attaches what belongs to items, for each repository at once: that waits for other signers.
func (t *transfer) attach(ctx context.Context, items []Item, of func(context.Context, Item) ([]oci.Attachment, error)) error {
	all := map[string][]oci.Attachment{}
	for _, i := range items {
		some, err := of(ctx, i)
		if err != nil {
			return err
		}
		all[i.Repository] = append(all[i.Repository], some...)
	}
	for _, repository := range slices.Sorted(maps.Keys(all)) {
		if _, err := t.client.Attach(ctx, repository, all[repository]...); err != nil {
			return err
		}
	}
	return nil
}

// attachments returns an item that belongs to another one. Its tag, or the index that lists it, may be missing even
// where its manifest is there.
func (t *transfer) attachments(_ context.Context, i Item) ([]oci.Attachment, error) {
	if i.Subject == nil {
		return nil, nil
	}
	manifest := func(h v1.Hash) ([]byte, error) { return t.bundle.documents[h], nil }
	open := func(d v1.Descriptor) (io.ReadCloser, error) { // what has passed the pipe is in the registry, and not sent again
		b, here := t.bundle.reader(Blob{d.Digest, d.Size})
		if d.Digest == emptyConfig.Desc.Digest {
			b = emptyConfig
		} else if !here {
			b = t.absent(d)
		}
		return b.Open()
	}
	artifact, err := oci.NewArtifact(t.bundle.documents[i.Descriptor.Digest], oci.RemoteBlobs("the bundle", manifest, open))
	if err != nil {
		return nil, err
	}
	tag := ""
	if len(i.Tags) > 0 {
		tag = i.Tags[0]
	}
	a, err := oci.AttachmentOf(*i.Subject, tag, artifact)
	return []oci.Attachment{a}, err
}

// signatures returns the site's signatures, under the names of the site, of an item and of each image in it. What is
// signed by the key already is not signed again.
func (t *transfer) signatures(ctx context.Context, i Item) ([]oci.Attachment, error) {
	there, err := t.client.Attachments(ctx, i.Repository+"@"+i.Descriptor.Digest.String())
	if err != nil {
		return nil, err
	}
	request := signature.Request{Repository: i.Repository, Tags: i.Tags, Format: signature.Legacy}
	for _, d := range t.bundle.needs(i).documents {
		s := signature.Subject{Descriptor: documentOf(t.bundle.documents[d.Digest]).Desc}
		for _, a := range there {
			if a.Subject == d.Digest {
				s.Attachments = append(s.Attachments, a)
			}
		}
		request.Subjects = append(request.Subjects, s)
	}
	all, err := signature.Sign(ctx, request, t.Sign)
	if err != nil {
		return nil, fmt.Errorf("sign %s@%s: %w", i.Repository, i.Descriptor.Digest, err)
	}
	signed := map[v1.Hash]bool{}
	for _, a := range all {
		signed[a.Subject] = true
	}
	t.result.Signed += len(signed)
	return all, nil
}

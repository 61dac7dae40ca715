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

// blobs pushes the blobs of all items: those of the bundle, those that can only be mounted, and the empty config.
func (t *transfer) blobs(ctx context.Context) error {
	if t.DryRun {
		return nil
	}
	here := t.bundle.List.present()
	push := func(ctx context.Context, n int) error {
		b, _ := t.bundle.reader(here[n])
		return t.push(ctx, b)
	}
	if t.bundle.file != nil {
		if err := t.parallel(ctx, len(here), push); err != nil {
			return err
		}
	} else if err := t.bundle.pass(ctx, t.push); err != nil {
		return err
	}
	for _, a := range t.bundle.List.Absent {
		if err := t.push(ctx, t.elsewhere(a.Blob)); err != nil {
			return err
		}
	}
	return t.push(ctx, emptyConfig)
}

// elsewhere is a blob that only another repository of the registry has: it can be mounted, and not be sent.
func (t *transfer) elsewhere(b Blob) oci.Blob {
	return oci.Blob{Desc: v1.Descriptor{Digest: b.Digest, Size: b.Size}, Open: func() (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s is in %s, but the registry does not mount it into another repository: it is %w", b.Digest, t.held(b.Digest)[0], ErrLacks)
	}}
}

// push makes sure that all repositories that need a blob have it: it goes to one, and is mounted into the others.
func (t *transfer) push(ctx context.Context, b oci.Blob) error {
	h := b.Desc.Digest
	for _, repository := range t.users[h] {
		state, err := t.client.PushBlob(ctx, repository, b, append(t.held(h), t.MountFrom...)...)
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
		t.Progress(t.done, t.total)
	}
	return nil
}

// finish pushes manifests, then attachments, then the signatures of the site, then tags.
func (t *transfer) finish(ctx context.Context) error {
	if t.DryRun {
		return nil
	}
	for _, step := range []func(context.Context, *transferItem) error{t.manifests, t.attach, t.sign, t.tags} {
		for _, x := range t.items {
			if err := step(ctx, x); err != nil {
				return err
			}
		}
		for _, repository := range slices.Sorted(maps.Keys(t.added)) { // at once: it waits for other signers
			if _, err := t.client.Attach(ctx, repository, t.added[repository]...); err != nil {
				return err
			}
		}
		clear(t.added)
	}
	return nil
}

// manifests puts the manifests of an item that is no attachment under their digests.
func (t *transfer) manifests(ctx context.Context, x *transferItem) error {
	if x.Subject != nil || x.there {
		return nil
	}
	for _, d := range x.documents {
		if err := t.client.PushManifest(ctx, x.Repository, d.Desc.Digest.String(), d); err != nil {
			return err
		}
	}
	return nil
}

// attach is called for attachments that are there too: their tag, or the index that lists them, may be missing.
func (t *transfer) attach(_ context.Context, x *transferItem) error {
	if x.Subject == nil {
		return nil
	}
	tag := ""
	if len(x.Tags) > 0 {
		tag = x.Tags[0]
	}
	manifest := func(h v1.Hash) ([]byte, error) { return t.bundle.documents[h], nil }
	artifact, err := oci.NewArtifact(t.bundle.documents[x.Descriptor.Digest], oci.RemoteBlobs("the bundle", manifest, t.open))
	var a oci.Attachment
	if err == nil {
		a, err = oci.AttachmentOf(*x.Subject, tag, artifact)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", x.Descriptor.Digest, err)
	}
	t.added[x.Repository] = append(t.added[x.Repository], a)
	return nil
}

// open opens a blob of an attachment. One that is not in the bundle, or has passed the pipe, is in the registry,
// and is not sent again.
func (t *transfer) open(d v1.Descriptor) (io.ReadCloser, error) {
	if d.Digest == emptyConfig.Desc.Digest {
		return emptyConfig.Open()
	}
	b, ok := t.bundle.reader(Blob{d.Digest, d.Size})
	if !ok {
		return nil, fmt.Errorf("%s: it is %w", d.Digest, ErrLacks)
	}
	return b.Open()
}

// sign adds the site's signatures, under the names of the site, to an item that is no attachment: of an
// index, and of each image in it. What is signed by the key already is not signed again. Nothing has a tag
// before it is signed.
func (t *transfer) sign(ctx context.Context, x *transferItem) error {
	if x.Subject != nil || t.Sign == nil {
		return nil
	}
	ref := x.Repository + "@" + x.Descriptor.Digest.String()
	there, err := t.client.Attachments(ctx, ref)
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
	t.added[x.Repository] = append(t.added[x.Repository], all...)
	signed := map[v1.Hash]bool{}
	for _, a := range all {
		signed[a.Subject] = true
	}
	t.result.Signed += len(signed)
	return nil
}

// tags moves the tags of an item that is no attachment.
func (t *transfer) tags(ctx context.Context, x *transferItem) error {
	if x.Subject != nil {
		return nil
	}
	for _, tag := range x.Tags {
		same, err := t.client.HasManifest(ctx, x.Repository, tag, x.Descriptor.Digest)
		if err == nil && !same {
			err = t.client.PushManifest(ctx, x.Repository, tag, x.documents[len(x.documents)-1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

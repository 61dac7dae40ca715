package importing

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

func (t *transfer) parallel(ctx context.Context, n int, f func(ctx context.Context, n int) error) error {
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(t.Jobs)
	for i := range n {
		jobs.Go(func() error { return f(ctx, i) })
	}
	return jobs.Wait()
}

// users returns the repositories that need a blob.
func (t *transfer) users() map[v1.Hash][]string {
	all := map[v1.Hash][]string{}
	seen := map[string]bool{}
	for _, x := range t.items {
		for _, d := range x.blobs {
			if key := x.Repository + "@" + d.Digest.String(); !x.there && !seen[key] {
				seen[key] = true
				all[d.Digest] = append(all[d.Digest], x.Repository)
			}
		}
	}
	return all
}

// blobs pushes the blobs of all items. A blob goes to one repository, and is mounted into the others.
func (t *transfer) blobs(ctx context.Context) error {
	users := t.users()
	all := append([]bundle.Blob{{Digest: bundle.EmptyConfig().Desc.Digest}}, t.bundle.List.Blobs...)
	return t.parallel(ctx, len(all), func(ctx context.Context, n int) error {
		h := all[n].Digest
		b, ok := t.bundle.Blob(h)
		switch {
		case h == bundle.EmptyConfig().Desc.Digest:
			b = bundle.EmptyConfig()
		case !ok:
			b = t.elsewhere(all[n])
		}
		for _, repository := range users[h] {
			if err := t.push(ctx, repository, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// elsewhere is a blob that only another repository of the registry has: it can be mounted, and not be sent.
func (t *transfer) elsewhere(b bundle.Blob) oci.Blob {
	return oci.Blob{Desc: v1.Descriptor{Digest: b.Digest, Size: b.Size}, Open: func() (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s is in %s, but the registry does not mount it into another repository: %w", b.Digest, t.held(b.Digest)[0], ErrLacks)
	}}
}

// held returns the repositories that are known to have a blob.
func (t *transfer) held(h v1.Hash) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.holders[h])
}

func (t *transfer) push(ctx context.Context, repository string, b oci.Blob) error {
	h := b.Desc.Digest
	state, err := t.registry.PushBlob(ctx, repository, b, append(t.held(h), t.MountFrom...)...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		return err
	}
	t.holders[h] = append(t.holders[h], repository)
	if t.done += b.Desc.Size; t.Progress != nil && t.total > 0 {
		t.Progress(min(t.done, t.total), t.total)
	}
	if state == registry.Done {
		t.result.Sent++
		t.result.Bytes += b.Desc.Size
	}
	return nil
}

// finish pushes manifests, then attachments and the signatures of the site, then tags.
func (t *transfer) finish(ctx context.Context) error {
	for _, x := range t.items {
		t.result.Done = append(t.result.Done, x.Item)
	}
	if t.DryRun {
		return nil
	}
	for _, step := range []func(context.Context, *item) error{t.manifests, t.attach, t.sign, t.tags} {
		for _, x := range t.items {
			if err := step(ctx, x); err != nil {
				return err
			}
		}
		for _, repository := range slices.Sorted(maps.Keys(t.attachments)) { // at once: it waits for other signers
			if _, err := t.registry.Attach(ctx, repository, t.attachments[repository]...); err != nil {
				return err
			}
		}
		clear(t.attachments)
	}
	return nil
}

// manifests puts the manifests of an item that is no attachment under their digests.
func (t *transfer) manifests(ctx context.Context, x *item) error {
	if x.Subject != nil || x.there {
		return nil
	}
	for _, d := range x.documents {
		if err := t.registry.PushManifest(ctx, x.Repository, d.Desc.Digest.String(), d); err != nil {
			return err
		}
	}
	return nil
}

// attach is called for attachments that are there too: their tag, or the index that lists them, may
// be missing.
func (t *transfer) attach(ctx context.Context, x *item) error {
	if x.Subject == nil {
		return nil
	}
	manifest := func(h v1.Hash) ([]byte, error) { return t.bundle.Documents[h], nil }
	artifact, err := oci.NewArtifact(t.bundle.Documents[x.Descriptor.Digest], oci.RemoteBlobs("the bundle", manifest, t.open))
	if err != nil {
		return fmt.Errorf("read %s: %w", x.Descriptor.Digest, err)
	}
	tag := ""
	if len(x.Tags) > 0 {
		tag = x.Tags[0]
	}
	a, err := oci.AttachmentOf(*x.Subject, tag, artifact)
	if err != nil {
		return fmt.Errorf("read %s: %w", x.Descriptor.Digest, err)
	}
	t.attachments[x.Repository] = append(t.attachments[x.Repository], a)
	return nil
}

// open opens a blob of an attachment. One that is not in the bundle is in the registry, and is not
// sent again.
func (t *transfer) open(d v1.Descriptor) (io.ReadCloser, error) {
	b, ok := t.bundle.Blob(d.Digest)
	switch {
	case d.Digest == bundle.EmptyConfig().Desc.Digest:
		return bundle.EmptyConfig().Open()
	case !ok:
		return nil, fmt.Errorf("%s: %w", d.Digest, ErrLacks)
	}
	return b.Open()
}

// tags moves the tags of an item that is no attachment.
func (t *transfer) tags(ctx context.Context, x *item) error {
	if x.Subject != nil {
		return nil
	}
	for _, tag := range x.Tags {
		same, err := t.registry.HasManifest(ctx, x.Repository, tag, x.Descriptor.Digest)
		if err == nil && !same {
			err = t.registry.PushManifest(ctx, x.Repository, tag, x.documents[len(x.documents)-1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

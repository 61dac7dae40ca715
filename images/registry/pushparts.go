package registry

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// PushBlob makes sure that a repository (host/path) has a blob, for a caller that has an order of its own.
func (c *Client) PushBlob(ctx context.Context, repository string, b oci.Blob) (state State, err error) {
	p, err := c.newPush(repository, c.opts.MountFrom)
	if err == nil {
		state, err = p.blob(ctx, b)
		err = p.fail(ctx, err)
	}
	return state, err
}

// FindBlob looks for a blob in repositories of a registry, and in those of Options.MountFrom. Push mounts it from where it
// is.
func (c *Client) FindBlob(ctx context.Context, h v1.Hash, repositories ...string) (found bool, err error) {
	for n, repository := range slices.Concat(repositories, c.opts.MountFrom) {
		p, err := c.newPush(repository, nil)
		if err == nil && n >= len(repositories) && p.sibling(repositories[0]) == "" {
			continue // of another registry
		}
		if err == nil {
			found, err = p.hasBlob(ctx, h)
			err = p.fail(ctx, err)
		}
		if err != nil {
			return false, err
		}
		if found {
			c.sent.Store(p.ref.repo.Name()+"@"+h.String(), true)
			c.origins.Store(h, p.ref.repo.Name())
			return true, nil
		}
	}
	return false, nil
}

// Has says whether a reference with a digest leads to a manifest.
func (c *Client) Has(ctx context.Context, ref string) (found bool, err error) {
	p, err := c.newPush(ref, nil)
	if err == nil {
		found, err = p.has(ctx, p.ref.digest.String(), oci.Document{Desc: v1.Descriptor{Digest: p.ref.digest}})
		err = p.fail(ctx, err)
	}
	return found, err
}

// CheckPush asks whether the credentials allow a push to a repository (host/path), so that minutes of work
// are not lost. The protocol has no such question: CheckPush begins the upload of a blob and cancels it, as
// remote.CheckPushPermission of go-containerregistry does. A token alone proves nothing, because registries
// without a token server judge each request. It says nothing about quotas, immutable tags and the size of
// blobs. Errors: *Error.
func (c *Client) CheckPush(ctx context.Context, repository string) error {
	if err := imagename.CheckRepository(repository); err != nil {
		return fmt.Errorf("push to %w", err)
	}
	p, err := c.newPush(repository, nil)
	if err != nil {
		return err
	}
	location, _, err := p.begin(ctx, "", nil)
	if err == nil {
		p.abandon(ctx, location)
	}
	return p.fail(ctx, err)
}

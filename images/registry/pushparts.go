package registry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// PushBlob makes sure that a repository (host/path) has a blob, for a caller that has an order of
// its own.
func (c *Client) PushBlob(ctx context.Context, repository string, b oci.Blob) (State, error) {
	p, err := c.newPush(repository, c.opts.MountFrom)
	if err != nil {
		return Running, err
	}
	state, err := p.blob(ctx, b)
	return state, p.fail(ctx, err)
}

// FindBlob looks for a blob in repositories of a registry, and in those of Options.MountFrom. Push
// mounts it from where it is.
func (c *Client) FindBlob(
	ctx context.Context,
	h v1.Hash,
	repositories ...string,
) (found bool, err error) {
	for n, repository := range slices.Concat(repositories, c.opts.MountFrom) {
		p, err := c.newPush(repository, nil)
		if err != nil {
			return false, err
		}
		if n >= len(repositories) {
			first, err := parseReference(repositories[0])
			if err != nil || first.repo.RegistryStr() != p.ref.repo.RegistryStr() {
				continue // of another registry
			}
		}
		found, err := p.s.hasBlob(ctx, h.String())
		if err != nil {
			return false, p.fail(ctx, err)
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
	if err != nil {
		return false, err
	}
	found, err = p.has(
		ctx,
		p.ref.digest.String(),
		oci.Document{Desc: v1.Descriptor{Digest: p.ref.digest}},
	)
	return found, p.fail(ctx, err)
}

// abandonTimeout is how long an interrupted program may take to cancel its upload.
const abandonTimeout = 500 * time.Millisecond

// CheckPush asks whether the credentials allow a push to a repository (host/path), so that minutes
// of work are not lost. The protocol has no such question: CheckPush begins the upload of a blob
// and cancels it, as remote.CheckPushPermission of go-containerregistry does, which has no
// deadline. A token alone proves nothing, because registries without a token server judge each
// request. It says nothing about quotas, immutable tags and the size of blobs. Errors: *Error.
func (c *Client) CheckPush(ctx context.Context, repository string) error {
	err := imagename.CheckRepository(repository)
	if err != nil {
		return fmt.Errorf("push to %w", err)
	}
	p, err := c.newPush(repository, nil)
	if err != nil {
		return err
	}
	begun, err := p.s.send(ctx, request{
		method: http.MethodPost, to: p.s.url("blobs", "uploads/"),
	})
	if err != nil {
		return p.fail(ctx, err)
	}
	location, err := begun.Location()
	if err != nil {
		return nil //nolint:nilerr // it may push; there is nothing to cancel
	}
	// If that fails, the registry drops the upload later by itself.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	_, _ = p.s.once(ctx, request{method: http.MethodDelete, to: location.String()})
	return nil
}

package registry

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// The functions of this file push artifacts piece by piece, for a caller that has an order of its own.
// repository is host/path. Errors: *Error; *fetch.MismatchError when a blob does not match its digest.

// HasBlob says whether a repository has a blob.
func (c *Client) HasBlob(ctx context.Context, repository string, h v1.Hash) (found bool, err error) {
	err = c.inRepository(ctx, repository, nil, func(p *push) error {
		found, err = p.hasBlob(ctx, h)
		return err
	})
	return found, err
}

// HasManifest says whether a name (a tag or a digest) leads to a manifest.
func (c *Client) HasManifest(ctx context.Context, repository, name string, h v1.Hash) (found bool, err error) {
	err = c.inRepository(ctx, repository, nil, func(p *push) error {
		found, err = p.has(ctx, name, oci.Document{Desc: v1.Descriptor{Digest: h}})
		return err
	})
	return found, err
}

// PushBlob makes sure that a repository has a blob: it exists there, or is mounted from one of the
// repositories from, or is sent.
func (c *Client) PushBlob(ctx context.Context, repository string, b oci.Blob, from ...string) (state State, err error) {
	err = c.inRepository(ctx, repository, from, func(p *push) error {
		state, err = p.blob(ctx, b, p.from)
		return err
	})
	return state, err
}

// PushManifest puts a manifest under a tag or its digest. The repository must have what it names.
func (c *Client) PushManifest(ctx context.Context, repository, name string, d oci.Document) error {
	return c.inRepository(ctx, repository, nil, func(p *push) error {
		_, err := p.put(ctx, name, d)
		return err
	})
}

func (c *Client) inRepository(ctx context.Context, repository string, from []string, f func(*push) error) error {
	if err := imagename.CheckRepository(repository); err != nil {
		return fmt.Errorf("push to %w", err)
	}
	p, err := c.newPush(ctx, repository, from)
	if err != nil {
		return err
	}
	return p.fail(ctx, f(p))
}

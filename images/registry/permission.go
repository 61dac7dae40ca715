package registry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/images/imagename"
)

// CheckPush asks whether the credentials allow a push to a repository (host/path), so that minutes of work
// are not lost. The protocol has no such question: CheckPush begins the upload of a blob and cancels it, as
// remote.CheckPushPermission of go-containerregistry does. A token alone proves nothing, because registries
// without a token server judge each request. It says nothing about quotas, immutable tags and the size of
// blobs. Errors: *Error.
func (c *Client) CheckPush(ctx context.Context, repository string) error {
	return c.inRepository(ctx, repository, nil, func(p *push) error {
		resp, err := p.send(ctx, http.MethodPost, p.s.URL("blobs", "uploads/"), http.StatusAccepted)
		if err != nil {
			return err
		}
		if location, err := nextLocation(resp, ""); err == nil { // else there is nothing to cancel
			p.abandon(ctx, location, p.limits.request)
		}
		return nil
	})
}

// CheckLogin asks a registry (host[:port]) whether it accepts user and password, before they are stored. A
// registry without passwords accepts all. Errors: *Error.
func (c *Client) CheckLogin(ctx context.Context, registry, user, password string) error {
	const op = "log in to"
	if err := imagename.CheckRegistry(registry); err != nil {
		return fmt.Errorf("%s %w", op, err)
	}
	var opts []name.Option
	if c.opts.Insecure {
		opts = append(opts, name.Insecure)
	}
	r, err := name.NewRegistry(registry, opts...)
	if err != nil {
		return fmt.Errorf("%s %q: %w", op, registry, err)
	}
	err = c.pool.CheckLogin(ctx, r, &authn.Basic{Username: user, Password: password}, c.opts.Attempts)
	return wrapped(ctx, op, registry, r.RegistryStr(), err)
}

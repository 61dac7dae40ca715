package registry

import (
	"context"
	"net/http"
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

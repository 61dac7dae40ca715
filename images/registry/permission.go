package registry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// CheckPush asks whether the credentials allow a push to a repository (host/path), so that minutes of work
// are not lost. The protocol has no such question: CheckPush begins the upload of a blob and cancels it, as
// remote.CheckPushPermission of go-containerregistry does. A token alone proves nothing, because registries
// without a token server judge each request. It says nothing about quotas, immutable tags and the size of
// blobs. Errors: *Error.
func (c *Client) CheckPush(ctx context.Context, repository string) error {
	if err := imagename.CheckRepository(repository); err != nil {
		return fmt.Errorf("push to %w", err)
	}
	r, err := parseReference(repository, c.opts.Insecure)
	if err != nil {
		return err
	}
	p := &push{Client: c, ref: r}
	var resp answer
	p.s, err = c.pool.Session(ctx, transport.Endpoint{Repo: r.repo}, c.opts.Attempts, transport.Push)
	if err == nil {
		resp, err = p.send(ctx, http.MethodPost, p.s.URL("blobs", "uploads/"), http.StatusAccepted)
	}
	if err != nil {
		return failure(ctx, "push", repository, r.repo.RegistryStr(), err)
	}
	if location, err := nextLocation(resp, ""); err == nil { // else there is nothing to cancel
		p.abandon(ctx, location, p.limits.request)
	}
	return nil
}

package registry

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/driver-container/driver-container/images/imagename"
)

// abandonTimeout is how long an interrupted program may take to cancel its upload.
const abandonTimeout = 500 * time.Millisecond

// CheckPush asks whether the credentials allow a push to a repository (host/path), so that minutes of work
// are not lost. The protocol has no such question: CheckPush begins the upload of a blob and cancels it, as
// remote.CheckPushPermission of go-containerregistry does, which has no deadline. A token alone proves nothing, because
// registries without a token server judge each request. It says nothing about quotas, immutable tags and the size of
// blobs. Errors: *Error.
func (c *Client) CheckPush(ctx context.Context, repository string) error {
	err := imagename.CheckRepository(repository)
	if err != nil {
		return fmt.Errorf("push to %w", err)
	}
	p, err := c.newPush(repository, nil)
	if err != nil {
		return err
	}
	resp, err := p.s.ask(ctx, http.MethodPost, p.s.url("blobs", "uploads/"), "")
	if err != nil {
		return p.fail(ctx, err)
	}
	location, err := resp.Location()
	if err == nil {
		p.s.abandon(ctx, location.String())
	}
	return nil
}

// abandon tells the registry that an upload will not continue. If that fails, the registry drops the upload
// later by itself.
func (s *session) abandon(ctx context.Context, location string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, location, http.NoBody)
	if err == nil {
		_, _ = s.once(ctx, req)
	}
}

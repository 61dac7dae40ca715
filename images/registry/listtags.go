package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Bounds of a listing.
const (
	maxTagPage  = 8 << 20 // bytes
	maxTagPages = 1000
	maxTags     = 1 << 20
)

// ListTags returns the sorted tags of the images in a repository (host/path) from its own registry, because
// mirrors may be outdated; tags of signatures and other attachments are left out. A registry need not offer
// listings, and many say that a repository does not exist (fs.ErrNotExist) until something is pushed to it.
// Errors: *Error, fetch.ErrOffline.
func (c *Client) ListTags(ctx context.Context, repository string) ([]string, error) {
	const op = "list the tags of"
	if err := imagename.CheckRepository(repository); err != nil {
		return nil, fmt.Errorf("%s %w", op, err)
	}
	r, err := parseReference(repository, c.opts.Insecure)
	if err != nil {
		return nil, fmt.Errorf("%s %w", op, err)
	}
	if c.opts.Offline {
		return nil, fmt.Errorf("%s %s: %w", op, repository, fetch.ErrOffline)
	}
	fail := func(err error) error { return wrapped(ctx, op, repository, r.repo.RegistryStr(), err) }
	s, err := c.pool.Session(ctx, transport.Endpoint{Repo: r.repo}, c.opts.Attempts, transport.Pull)
	if err != nil {
		return nil, fail(err)
	}
	var all []string
	next := s.URL("tags", "list")
	for page := 1; next != ""; page++ {
		if page > maxTagPages || len(all) > maxTags {
			return nil, fail(fmt.Errorf("it sent more than %d pages or %d tags", maxTagPages, maxTags))
		}
		var some []string
		err := c.pool.Try(ctx, c.opts.Attempts, c.limits.request, func(ctx context.Context) (err error) {
			some, next, err = tagPage(ctx, s, next)
			return err
		})
		if err != nil {
			return nil, fail(err)
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), oci.IsAttachmentTag), nil
}

// tagPage requests one page of the listing. It returns the tags and the address of the next page. See
// "Listing Tags" in the OCI distribution specification.
func tagPage(ctx context.Context, s *transport.Session, from string) (tags []string, next string, err error) {
	raw, _, next, err := s.Page(ctx, from, "", maxTagPage)
	if err != nil {
		return nil, from, err
	}
	var doc struct{ Tags []string }
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, from, transport.Final(fmt.Errorf("it sent no list of tags: %w", err))
	}
	return doc.Tags, next, nil
}

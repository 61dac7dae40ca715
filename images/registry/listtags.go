package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// maxTags bounds a listing.
const maxTags = 1 << 20

// ListTags returns the sorted tags of the images in a repository (host/path) from its own registry, because
// mirrors may be outdated; tags of signatures and other attachments are left out. A registry need not offer
// listings, and many say that a repository does not exist (fs.ErrNotExist) until something is pushed to it.
// Errors: *Error, fetch.ErrOffline.
func (c *Client) ListTags(ctx context.Context, repository string) ([]string, error) {
	const op = "list the tags of"
	if err := imagename.CheckRepository(repository); err != nil {
		return nil, fmt.Errorf("%s %w", op, err)
	}
	r, err := parseReference(repository)
	if err != nil {
		return nil, fmt.Errorf("%s %w", op, err)
	}
	if c.opts.Offline {
		return nil, fmt.Errorf("%s %s: %w", op, repository, fetch.ErrOffline)
	}
	var all []string
	s := c.session(ctx, endpoint{r.repo, false, c.opts.Attempts}, "pull")
	if err := s.remote.Tags(ctx, "", func(some []string) error {
		if all = append(all, some...); len(all) > maxTags {
			return fmt.Errorf("it sent more than %d tags", maxTags)
		}
		return nil
	}); err != nil {
		return nil, wrapped(ctx, op, repository, r.repo.RegistryStr(), err)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), oci.IsAttachmentTag), nil
}

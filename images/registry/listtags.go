package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/imagename"
)

// Bounds of a listing.
const (
	maxTagPage  = 8 << 20 // bytes
	maxTagPages = 1000
	maxTags     = 1 << 20
)

// ListTags returns the sorted tags of a repository (host/path) from its own registry, because mirrors may be
// outdated. A registry need not offer listings, and many say that a repository does not exist
// (fs.ErrNotExist) until something is pushed to it. Errors: *Error, fetch.ErrOffline.
func (c *Client) ListTags(ctx context.Context, repository string) ([]string, error) {
	const op = "list the tags of"
	if err := imagename.CheckRepository(repository); err != nil {
		return nil, fmt.Errorf("%s %w", op, err)
	}
	var opts []name.Option
	if c.opts.Insecure {
		opts = append(opts, name.Insecure)
	}
	repo, err := name.NewRepository(repository, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", op, repository, err)
	}
	if c.opts.Offline {
		return nil, fmt.Errorf("%s %s: %w", op, repository, fetch.ErrOffline)
	}
	fail := func(err error) error { return failure(ctx, op, repository, repo.RegistryStr(), err) }
	s, err := c.session(ctx, endpoint{repo: repo}, c.opts.Attempts, transport.PullScope)
	if err != nil {
		return nil, fail(err)
	}
	var all []string
	next := s.url("tags", "list")
	for page := 1; next != ""; page++ {
		if page > maxTagPages || len(all) > maxTags {
			return nil, fail(fmt.Errorf("it sent more than %d pages or %d tags", maxTagPages, maxTags))
		}
		var some []string
		err := c.try(ctx, c.opts.Attempts, c.limits.request, func(ctx context.Context) (err error) {
			some, next, err = s.tagPage(ctx, next)
			return err
		})
		if err != nil {
			return nil, fail(err)
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// tagPage requests one page of the listing. It returns the tags and the address of the next page, "" after
// the last. See "Listing Tags" in the OCI distribution specification.
func (s *session) tagPage(ctx context.Context, from string) (tags []string, next string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, from, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, from, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := check(resp, http.StatusOK); err != nil {
		return nil, from, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxTagPage+1))
	if err != nil {
		return nil, from, err
	}
	if len(raw) > maxTagPage {
		return nil, from, &finalError{fmt.Errorf("it sent a page of more than %d bytes", maxTagPage)}
	}
	var doc struct{ Tags []string }
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, from, &finalError{fmt.Errorf("it sent no list of tags: %w", err)}
	}
	if next, err = nextPage(resp.Header, req.URL); err != nil {
		return nil, from, &finalError{err}
	}
	return doc.Tags, next, nil
}

// nextPage reads the Link header: <URL>; rel="next". The address must be on the same server, because the
// request carries our credentials.
func nextPage(h http.Header, from *url.URL) (string, error) {
	for _, link := range h.Values("Link") {
		target, params, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(link), "<"), ">")
		if !ok || !strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=next") {
			continue
		}
		u, err := from.Parse(target)
		if err != nil || u.Host != from.Host || u.Scheme != from.Scheme {
			return "", errors.New("it sent the next page of the list to another server")
		}
		if u.String() == from.String() {
			return "", errors.New("it sent the same page of the list again")
		}
		return u.String(), nil
	}
	return "", nil
}

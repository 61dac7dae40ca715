package registry

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Bounds of a list of referrers.
const (
	maxReferrerPages = 1000
	maxReferrers     = 10_000
)

// noReferrersAPI are the answers of registries without the referrers API: 404 says the standard, the others
// were seen. https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#listing-referrers
var noReferrersAPI = []int{
	http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented,
}

// referrers asks the referrers API for what refers to a subject. The result is sorted by digest; what it says
// of a manifest is not verified. found is false if the registry has no such API.
func (c *Client) referrers(ctx context.Context, s *transport.Session, subject v1.Hash) (all []v1.Descriptor, found bool, err error) {
	next := s.URL("referrers", subject.String())
	for page := 1; next != ""; page++ {
		if page > maxReferrerPages || len(all) > maxReferrers {
			return nil, true, fmt.Errorf("it sent more than %d pages or %d referrers of %s", maxReferrerPages, maxReferrers, subject)
		}
		var raw []byte
		var mediaType string
		from := next
		err := c.pool.Try(ctx, c.opts.Attempts, c.limits.request, func(ctx context.Context) (err error) {
			raw, mediaType, next, err = s.Page(ctx, from, string(types.OCIImageIndex), oci.MaxManifest)
			return err
		})
		if page == 1 && (slices.Contains(noReferrersAPI, transport.Status(err)) || err == nil && mediaType != string(types.OCIImageIndex)) {
			return nil, false, nil
		}
		if err != nil {
			return nil, true, err
		}
		some, err := oci.ParseReferrers(raw)
		if err != nil {
			return nil, true, fmt.Errorf("the referrers of %s: %w", subject, err)
		}
		all = append(all, some...)
	}
	return oci.SortDigests(all), true, nil
}

// taggedReferrers reads the index under the fallback tag.
func (c *Client) taggedReferrers(ctx context.Context, s *transport.Session, subject v1.Hash) ([]v1.Descriptor, error) {
	m, err := c.tagged(ctx, s, oci.ReferrersTag(subject))
	if err != nil || m.Raw == nil {
		return nil, err
	}
	all, err := oci.ParseReferrers(m.Raw)
	if err != nil {
		return nil, &itemError{"tag " + oci.ReferrersTag(subject), err}
	}
	if len(all) > maxReferrers {
		return nil, fmt.Errorf("it has more than %d referrers of %s", maxReferrers, subject)
	}
	return all, nil
}

// tagged reads the manifest under a tag; without one it is empty.
func (c *Client) tagged(ctx context.Context, s *transport.Session, tag string) (m oci.Manifest, err error) {
	err = c.pool.Try(ctx, c.opts.Attempts, c.limits.request, func(ctx context.Context) (err error) {
		m, err = s.Manifest(ctx, tag, v1.Hash{})
		return err
	})
	if transport.Status(err) == http.StatusNotFound {
		return oci.Manifest{}, nil
	}
	if err != nil {
		err = &itemError{"tag " + tag, err}
	}
	return m, err
}

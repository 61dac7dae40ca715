package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// acceptable lists the types of manifest that this package reads, for the Accept header.
var acceptable = strings.Join([]string{
	string(types.OCIImageIndex), string(types.DockerManifestList), string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
}, ", ")

// headManifest requests the digest of a tag. It is zero when the registry does not state it.
func (s *session) headManifest(ctx context.Context, identifier string) (v1.Hash, error) {
	resp, err := s.manifestRequest(ctx, http.MethodHead, identifier)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := resp.Body.Close(); err != nil {
		return v1.Hash{}, err
	}
	if resp.StatusCode == http.StatusMethodNotAllowed {
		return v1.Hash{}, nil
	}
	if err := check(resp, http.StatusOK); err != nil {
		return v1.Hash{}, err
	}
	h, err := v1.NewHash(resp.Header.Get("Docker-Content-Digest"))
	if err != nil || h.Algorithm != "sha256" {
		return v1.Hash{}, nil //nolint:nilerr // the header is optional
	}
	return h, nil
}

func (s *session) manifestRequest(ctx context.Context, method, identifier string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url("manifests", identifier), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", acceptable)
	return s.http.Do(req)
}

func (s *session) url(kind, identifier string) string {
	u := url.URL{
		Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + kind + "/" + identifier,
	}
	return u.String()
}

// fetchManifest downloads a manifest, verifies it against want unless that is zero, and keeps it in the
// store.
func (p *pull) fetchManifest(ctx context.Context, s *session, identifier string, want v1.Hash) (_ oci.Manifest, err error) {
	resp, err := s.manifestRequest(ctx, http.MethodGet, identifier)
	if err != nil {
		return oci.Manifest{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := check(resp, http.StatusOK); err != nil {
		return oci.Manifest{}, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, oci.MaxManifest+1))
	if err != nil {
		return oci.Manifest{}, err
	}
	if len(raw) > oci.MaxManifest {
		return oci.Manifest{}, &finalError{fmt.Errorf("it sent a manifest of more than %d bytes", oci.MaxManifest)}
	}
	h := oci.HashOf(raw)
	if want != (v1.Hash{}) && h != want {
		return oci.Manifest{}, &fetch.MismatchError{
			URL: s.url("manifests", identifier), Want: want.Hex, Got: h.Hex, GotSize: int64(len(raw)),
		}
	}
	if err := oci.StoreDocument(p.opts.Store, raw); err != nil {
		return oci.Manifest{}, &finalError{err}
	}
	return oci.Manifest{Raw: raw, Digest: h}, nil
}

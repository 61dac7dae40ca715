package transport

import (
	"bytes"
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

// acceptable lists the types of manifest that are read, for the Accept header.
var acceptable = strings.Join([]string{
	string(types.OCIImageIndex), string(types.DockerManifestList), string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
}, ", ")

// HeadManifest requests the digest of a tag. It is zero when the registry does not state it.
func (s *Session) HeadManifest(ctx context.Context, identifier string) (v1.Hash, error) {
	resp, err := s.get(ctx, http.MethodHead, s.URL("manifests", identifier), acceptable)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := resp.Body.Close(); err != nil {
		return v1.Hash{}, err
	}
	if resp.StatusCode == http.StatusMethodNotAllowed {
		return v1.Hash{}, nil
	}
	if err := Check(resp, http.StatusOK); err != nil {
		return v1.Hash{}, err
	}
	h, err := v1.NewHash(resp.Header.Get("Docker-Content-Digest"))
	if err != nil || h.Algorithm != "sha256" {
		return v1.Hash{}, nil //nolint:nilerr // the header is optional
	}
	return h, nil
}

// Manifest downloads a manifest, of at most oci.MaxManifest bytes, and verifies it against want unless that
// is zero.
func (s *Session) Manifest(ctx context.Context, identifier string, want v1.Hash) (oci.Manifest, error) {
	raw, _, err := s.document(ctx, s.URL("manifests", identifier), acceptable, oci.MaxManifest)
	if err != nil {
		return oci.Manifest{}, err
	}
	h := oci.HashOf(raw)
	if want != (v1.Hash{}) && h != want {
		return oci.Manifest{}, &fetch.MismatchError{
			URL: s.URL("manifests", identifier), Want: want.Hex, Got: h.Hex, GotSize: int64(len(raw)),
		}
	}
	return oci.Manifest{Raw: raw, Digest: h}, nil
}

// Blob downloads a blob into memory, of at most limit bytes, and verifies it.
func (s *Session) Blob(ctx context.Context, d v1.Descriptor, limit int64) ([]byte, error) {
	return oci.ReadBlob(oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) {
		raw, _, err := s.document(ctx, s.URL("blobs", d.Digest.String()), "", limit)
		return io.NopCloser(bytes.NewReader(raw)), err
	}}, limit)
}

// Page requests one page of a listing, of at most limit bytes. It returns the page, its media type, and the
// address of the next page, "" after the last.
func (s *Session) Page(ctx context.Context, from, accept string, limit int64) (raw []byte, mediaType, next string, err error) {
	raw, header, err := s.document(ctx, from, accept, limit)
	if err != nil {
		return nil, "", "", err
	}
	u, err := url.Parse(from)
	if err != nil {
		return nil, "", "", err
	}
	if next, err = nextPage(header, u); err != nil {
		return nil, "", "", Final(err)
	}
	mediaType, _, _ = strings.Cut(header.Get("Content-Type"), ";")
	return raw, strings.TrimSpace(mediaType), next, nil
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

// document reads an answer of at most limit bytes.
func (s *Session) document(ctx context.Context, from, accept string, limit int64) (raw []byte, h http.Header, err error) {
	resp, err := s.get(ctx, http.MethodGet, from, accept)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := Check(resp, http.StatusOK); err != nil {
		return nil, nil, err
	}
	if raw, err = io.ReadAll(io.LimitReader(resp.Body, limit+1)); err != nil {
		return nil, nil, err
	}
	if int64(len(raw)) > limit {
		return nil, nil, Final(fmt.Errorf("it sent a document of more than %d bytes", limit))
	}
	return raw, resp.Header, nil
}

func (s *Session) get(ctx context.Context, method, from, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return s.HTTP.Do(req)
}

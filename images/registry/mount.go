package registry

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// blob makes sure that the repository has a blob, and counts it.
func (p *push) blob(ctx context.Context, b oci.Blob) error {
	state, err := p.blobState(ctx, b)
	if err == nil {
		p.count(b, state)
	}
	return err
}

// blobState makes sure that the repository has a blob, and returns how.
func (p *push) blobState(ctx context.Context, b oci.Blob) (State, error) {
	exists, err := p.hasBlob(ctx, b.Desc.Digest)
	if err == nil && exists {
		p.recordMountSource(b.Desc.Digest, p.ref.repo.Name())
		return Exists, nil
	}
	if err != nil {
		return "", &itemError{"blob " + b.Desc.Digest.String(), err}
	}
	location, mounted, err := p.mount(ctx, b.Desc.Digest)
	if err == nil && mounted {
		return Mounted, nil
	}
	if err == nil {
		err = p.upload(ctx, b, location)
	}
	if err != nil {
		return "", &itemError{"blob " + b.Desc.Digest.String(), err}
	}
	p.recordMountSource(b.Desc.Digest, p.ref.repo.Name())
	return Done, nil
}

// answer is a registry's answer, without the body.
type answer struct {
	code   int
	header http.Header
	url    *url.URL // the URL that answered, after redirects
}

// send sends a request without a blob, retries where that can help, and checks the status of the answer.
func (p *push) send(ctx context.Context, method, to string, codes ...int) (resp answer, err error) {
	err = p.pool.Try(ctx, p.opts.Attempts, p.limits.request, func(ctx context.Context) error {
		resp, err = p.request(ctx, method, to, codes...)
		return err
	})
	return resp, err
}

func (p *push) request(ctx context.Context, method, to string, codes ...int) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	resp, err := p.s.HTTP.Do(req)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, resp.Request.URL}, errors.Join(transport.Check(resp, codes...), resp.Body.Close())
}

func (p *push) hasBlob(ctx context.Context, h v1.Hash) (bool, error) {
	resp, err := p.send(ctx, http.MethodHead, p.s.URL("blobs", h.String()), http.StatusOK, http.StatusNotFound)
	return err == nil && resp.code == http.StatusOK, err
}

// mount asks the registry to take the blob from another repository; if none is known, from any that it finds
// and that we may read ("from" is optional in OCI's distribution specification 1.1). A registry that declines
// begins an upload instead, whose location mount returns. No answer is an error, because the blob can still
// be uploaded.
func (p *push) mount(ctx context.Context, h v1.Hash) (location string, mounted bool, err error) {
	sources := p.sources(h)
	if len(sources) == 0 {
		sources = []string{""}
	}
	for _, from := range sources {
		if location != "" {
			p.abandon(ctx, location, p.limits.request)
			location = ""
		}
		q := url.Values{"mount": {h.String()}}
		if from != "" {
			q.Set("from", from)
		}
		resp, err := p.send(ctx, http.MethodPost, p.s.URL("blobs", "uploads/")+"?"+q.Encode(), http.StatusCreated, http.StatusAccepted)
		switch {
		case ctx.Err() != nil:
			return "", false, context.Cause(ctx)
		case err != nil && transport.Status(err) == 0:
			return "", false, err
		case err != nil:
			continue
		case resp.code == http.StatusCreated:
			return "", true, nil
		}
		location, _ = nextLocation(resp, "")
	}
	return location, false, nil
}

// sources returns the repositories to mount a blob from: the repository that it came from if that is
// known, else p.from.
func (p *push) sources(h v1.Hash) []string {
	if o, err := parseReference(p.mountSource(h), p.opts.Insecure); err == nil && o.repo.RegistryStr() == p.ref.repo.RegistryStr() &&
		slices.Contains(p.base, o.repo.RepositoryStr()) {
		return []string{o.repo.RepositoryStr()}
	}
	return p.from
}

// abandon tells the registry that an upload will not continue. If that fails, the registry drops the upload
// later by itself.
func (p *push) abandon(ctx context.Context, location string, limit time.Duration) {
	_ = transport.Once(ctx, limit, func(ctx context.Context) error {
		_, err := p.request(ctx, http.MethodDelete, location, http.StatusNoContent)
		return err
	})
}

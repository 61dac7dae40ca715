package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// The sizes of the pieces in which a blob is sent where a proxy refuses larger requests. nginx takes 1 MiB, if nobody
// changed that.
const (
	largestPiece  = 8 << 20
	smallestPiece = 512 << 10
)

// abandonTimeout is how long an interrupted program may take to cancel its upload.
const abandonTimeout = 500 * time.Millisecond

// errStalled is the cause that ends an upload that does not go on.
var errStalled = errors.New("it took no byte for too long")

// blob makes sure that the repository has a blob, and returns how.
func (p *push) blob(ctx context.Context, b oci.Blob) (state State, err error) {
	h, here := b.Desc.Digest, p.ref.repo.Name()
	if _, known := p.sent.Load(here + "@" + h.String()); known {
		return Exists, nil
	}
	if state, err = p.bring(ctx, b); err != nil {
		return Running, &itemError{"blob " + h.String(), err}
	}
	p.sent.Store(here+"@"+h.String(), true)
	p.origins.Store(h, here)
	return state, nil
}

// bring mounts a blob from another repository, or uploads it, unless the repository has it.
func (p *push) bring(ctx context.Context, b oci.Blob) (State, error) {
	h, from := b.Desc.Digest, p.from
	if exists, err := p.hasBlob(ctx, h); err != nil || exists {
		return Exists, err
	}
	known, _ := p.origins.Load(h)
	if name, ok := known.(string); ok && p.sibling(name) != "" {
		from = []string{p.sibling(name)}
	}
	location := ""
	for _, repository := range from {
		if location != "" {
			p.abandon(ctx, location)
		}
		var mounted bool
		var err error
		location, mounted, err = p.begin(ctx, repository, url.Values{"mount": {h.String()}, "from": {repository}})
		if mounted || err != nil && statusOf(err) == 0 { // a status means that the blob can still be uploaded
			return Mounted, err
		}
	}
	return Done, p.upload(ctx, b, location)
}

func (p *push) hasBlob(ctx context.Context, h v1.Hash) (bool, error) {
	_, err := p.s.ask(ctx, http.MethodHead, p.s.url("blobs", h.String()), "")
	if statusOf(err) == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// begin begins an upload, or mounts a blob from another repository, which a token must allow to read.
func (p *push) begin(ctx context.Context, from string, query url.Values) (location string, mounted bool, err error) {
	if from != "" {
		source := orasregistry.Reference{Registry: p.ref.repo.RegistryStr(), Repository: from}
		ctx = auth.AppendRepositoryScope(ctx, source, auth.ActionPull)
	}
	resp, err := p.s.ask(ctx, http.MethodPost, p.s.url("blobs", "uploads/")+"?"+query.Encode(), "")
	if err != nil || query != nil && resp.StatusCode == http.StatusCreated {
		return "", err == nil, err
	}
	location, err = nextLocation(resp)
	return location, false, err
}

// nextLocation returns the URL where an upload continues, which may be relative in the answer. Wherever it leads, the
// session sends credentials only to the registry's host. oras-go refuses other hosts, which some registries use.
func nextLocation(resp *http.Response) (string, error) {
	text := resp.Header.Get("Location")
	u, err := resp.Request.URL.Parse(text)
	if err != nil || text == "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", final(fmt.Errorf("it gave no place to upload to, but %q", printable(text)))
	}
	return u.String(), nil
}

// abandon tells the registry that an upload will not continue. If that fails, the registry drops the upload
// later by itself.
func (p *push) abandon(ctx context.Context, location string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	if req, err := http.NewRequestWithContext(ctx, http.MethodDelete, location, http.NoBody); err == nil {
		_, _ = p.s.once(ctx, req)
	}
}

// upload sends a blob. A try that fails begins again. oras-go's Push sends a blob in one request, once.
func (p *push) upload(ctx context.Context, b oci.Blob, location string) error {
	tries := 0
	hopeless := func(err error) bool { return isFinal(err) && !lostUpload(err) }
	_, err := fetch.Retry{Attempts: p.opts.Attempts, Backoff: p.opts.Backoff, Final: hopeless}.Do(ctx, func(ctx context.Context) (_ bool, err error) {
		if tries++; tries > 1 { // perhaps only the answer to the last request was lost
			if exists, err := p.hasBlob(ctx, b.Desc.Digest); err == nil && exists {
				return true, nil
			}
		}
		for {
			piece := min(b.Desc.Size, p.s.piece.Load())
			err = p.send(ctx, b, location, piece, tries > 1)
			location = ""
			if statusOf(err) != http.StatusRequestEntityTooLarge || !p.s.shrink(piece) {
				return false, err
			}
		}
	})
	return err
}

// lostUpload reports whether the registry does not know the upload any more, or counts other bytes than we
// do. Beginning again helps in both cases.
func lostUpload(err error) bool {
	_, marked := errors.AsType[*finalError](err)
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusBadRequest, http.StatusConflict, http.StatusRequestedRangeNotSatisfiable:
		return !marked
	}
	return false
}

// shrink makes pieces smaller than one that was refused. It returns false if they cannot be smaller.
func (s *session) shrink(refused int64) bool {
	next := max(min(refused/4, largestPiece), smallestPiece)
	if next >= refused {
		return false
	}
	s.piece.Store(min(next, s.piece.Load()))
	return true
}

// send sends a blob, in pieces, to a place for an upload, and closes the upload. careful waits for the registry's
// consent before it sends: one that refuses it may close the connection before the answer is read.
func (p *push) send(ctx context.Context, b oci.Blob, location string, piece int64, careful bool) (err error) {
	if location == "" {
		if location, _, err = p.begin(ctx, "", nil); err != nil {
			return final(err) // it has had its attempts
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(p.limits.commit, func() { cancel(fmt.Errorf("%w (%v)", errStalled, p.limits.commit)) })
	defer func() {
		idle.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		if err != nil {
			p.abandon(ctx, location)
		}
		cancel(nil)
	}()
	if piece >= b.Desc.Size {
		open := func() (io.ReadCloser, error) { return p.open(b, idle) } // once more if a request is repeated, with a new token
		location, err = p.patch(ctx, location, b.Desc.Size, -1, careful, open)
	} else {
		location, err = p.pieces(ctx, location, b, idle, piece, careful)
	}
	if err != nil {
		return err
	}
	return p.commit(ctx, location, b.Desc.Digest)
}

// pieces sends a blob in several requests, each from memory.
func (p *push) pieces(ctx context.Context, location string, b oci.Blob, idle *time.Timer, size int64, careful bool) (_ string, err error) {
	body, err := p.open(b, idle)
	if err != nil {
		return location, err
	}
	defer body.Close()
	buffer, total := make([]byte, size), b.Desc.Size
	for offset := int64(0); offset < total; offset += size {
		piece := buffer[:min(size, total-offset)]
		if _, err := io.ReadFull(body, piece); err != nil {
			return location, err
		}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(piece)), nil }
		if location, err = p.patch(ctx, location, int64(len(piece)), offset, careful, open); err != nil {
			return location, err
		}
	}
	return location, nil
}

// patch sends a piece of a blob from offset on, or, with an offset below 0, all of it: some registries accept that only
// without a range. It returns where the upload continues.
func (p *push) patch(ctx context.Context, location string, size, offset int64, careful bool, open func() (io.ReadCloser, error)) (string, error) {
	body, err := open()
	if err != nil {
		return location, final(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, location, body)
	if err != nil {
		return location, err
	}
	req.ContentLength, req.GetBody = size, open
	req.Header.Set("Content-Type", "application/octet-stream")
	if offset >= 0 {
		req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", offset, offset+size-1))
	}
	if careful {
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := p.s.RoundTrip(req)
	if err == nil {
		resp, err = answer(resp)
	}
	if err != nil || resp.Header.Get("Location") == "" {
		return location, err
	}
	return nextLocation(resp)
}

// commit closes an upload.
func (p *push) commit(ctx context.Context, location string, h v1.Hash) error {
	u, err := url.Parse(location)
	if err != nil {
		return final(err)
	}
	q := u.Query()
	q.Set("digest", h.String())
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), http.NoBody)
	if err == nil {
		_, err = p.s.once(ctx, req)
	}
	return err
}

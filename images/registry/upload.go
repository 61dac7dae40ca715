package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// limits are the deadlines of a client. Tests have shorter ones.
type limits struct {
	request time.Duration // for a request without a blob, from dialling to the last byte of the answer
	stall   time.Duration // for the registry to take the next bytes of an upload
	commit  time.Duration // for the answer after the last byte of a blob: the registry may copy and hash it first
}

var defaultLimits = limits{request: time.Minute, stall: 2 * time.Minute, commit: 10 * time.Minute}

// progressStep is how many bytes must arrive for an interrupted upload to count as progress.
const progressStep = 1 << 20

// abandonTimeout is how long an interrupted program may take to cancel its upload.
const abandonTimeout = 500 * time.Millisecond

// transfer is the state of one upload.
type transfer struct {
	location string // URL for the rest of the bytes; "": an upload must be begun
	offset   int64  // bytes that the registry has
}

// upload sends a blob. When the connection breaks, it asks the registry how many bytes arrived and sends the
// rest. If the registry does not know (Docker's never does after an interrupted request), it begins again.
func (p *push) upload(ctx context.Context, b oci.Blob, location string) error {
	t, best := transfer{location: location}, int64(0)
	hopeless := func(err error) bool { return transport.IsFinal(err) && !lostUpload(err) }
	_, err := fetch.Retry{Attempts: p.opts.Attempts, Backoff: p.opts.Backoff, Final: hopeless}.Do(ctx, func(ctx context.Context) (progress bool, err error) {
		if err = p.attempt(ctx, b, &t); err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			if t.location != "" {
				p.abandon(context.WithoutCancel(ctx), t.location, abandonTimeout)
			}
			return false, err
		}
		if hopeless(err) {
			return false, err
		}
		p.resume(ctx, b, &t)
		if t.location == "" { // perhaps only the answer to the last request was lost
			if exists, headErr := p.hasBlob(ctx, b.Desc.Digest); headErr == nil && exists {
				return true, nil
			}
		}
		if progress = t.offset >= best+progressStep; progress {
			best = t.offset
		}
		return progress, err
	})
	return err
}

// lostUpload reports whether the registry does not know the upload any more, or counts other bytes than we
// do. Beginning again helps in both cases.
func lostUpload(err error) bool {
	switch transport.Status(err) {
	case http.StatusNotFound, http.StatusBadRequest, http.StatusConflict, http.StatusRequestedRangeNotSatisfiable:
		return !transport.IsMarked(err)
	}
	return false
}

// attempt begins the upload if necessary, sends the missing bytes, and closes the upload.
func (p *push) attempt(ctx context.Context, b oci.Blob, t *transfer) error {
	if t.location == "" {
		resp, err := p.send(ctx, http.MethodPost, p.s.URL("blobs", "uploads/"), http.StatusAccepted)
		if err != nil {
			return transport.Final(err) // it has had its attempts
		}
		if t.location, err = nextLocation(resp, ""); err != nil {
			return transport.Final(err)
		}
		t.offset = 0
	}
	if t.offset < b.Desc.Size {
		if err := p.patch(ctx, b, t); err != nil {
			return err
		}
	}
	return p.commit(ctx, b.Desc.Digest, t)
}

// patch sends the blob from the transfer's offset on.
func (p *push) patch(ctx context.Context, b oci.Blob, t *transfer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := p.body(b, t.offset, cancel)
	if err != nil {
		return transport.Final(err)
	}
	defer body.finish()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, t.location, body)
	if err != nil {
		return err
	}
	req.ContentLength = b.Desc.Size - t.offset
	req.Header.Set("Content-Type", "application/octet-stream")
	if t.offset > 0 { // the first request has no range, like docker's: some registries accept only that
		req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", t.offset, b.Desc.Size-1))
	}
	resp, err := p.s.HTTP.Do(req)
	if err != nil {
		return body.explain(ctx, err)
	}
	err = transport.Check(resp, http.StatusAccepted, http.StatusCreated, http.StatusNoContent)
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		return body.explain(ctx, err)
	}
	if err := body.CheckDigest(); err != nil {
		p.abandon(ctx, t.location, abandonTimeout)
		return err
	}
	if t.location, err = nextLocation(answer{resp.StatusCode, resp.Header, resp.Request.URL}, t.location); err != nil {
		return transport.Final(err)
	}
	if n, ok := received(resp.Header.Get("Range")); ok && n < b.Desc.Size {
		return fmt.Errorf("it took %d of %d bytes", n, b.Desc.Size)
	}
	t.offset = b.Desc.Size
	return nil
}

// commit closes an upload.
func (p *push) commit(ctx context.Context, h v1.Hash, t *transfer) error {
	u, err := url.Parse(t.location)
	if err != nil {
		return transport.Final(err)
	}
	q := u.Query()
	q.Set("digest", h.String())
	u.RawQuery = q.Encode()
	return transport.Once(ctx, p.limits.commit, func(ctx context.Context) error {
		_, err := p.request(ctx, http.MethodPut, u.String(), http.StatusCreated, http.StatusNoContent, http.StatusOK)
		return err
	})
}

// resume asks how many bytes of an upload arrived. If the registry does not say, the transfer begins again.
func (p *push) resume(ctx context.Context, b oci.Blob, t *transfer) {
	if t.location == "" {
		return
	}
	var resp answer
	err := transport.Once(ctx, p.limits.request, func(ctx context.Context) (err error) {
		resp, err = p.request(ctx, http.MethodGet, t.location, http.StatusNoContent, http.StatusOK, http.StatusAccepted)
		return err
	})
	if err == nil {
		n, ok := received(resp.header.Get("Range"))
		if location, err := nextLocation(resp, t.location); ok && err == nil && n <= b.Desc.Size {
			*t = transfer{location: location, offset: n}
			return
		}
	}
	if err == nil {
		p.abandon(ctx, t.location, p.limits.request)
	}
	*t = transfer{}
}

// received returns the number of bytes that the Range of an upload states: "0-99" is 100 bytes. "0-0" can
// mean one byte or none, so received treats it as no answer.
func received(header string) (int64, bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	n, err := strconv.ParseInt(last, 10, 64)
	return n + 1, ok && first == "0" && err == nil && n > 0 && n < 1<<62
}

// nextLocation returns the URL where an upload continues. It may be relative in the answer, and it is old
// when the answer has none. Wherever it leads, the session sends credentials only to the registry's host.
func nextLocation(resp answer, old string) (string, error) {
	text := resp.header.Get("Location")
	if text == "" && old != "" {
		return old, nil
	}
	u, err := resp.url.Parse(text)
	if err != nil || text == "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("it gave no place to upload to, but %q", transport.Clean(text))
	}
	return u.String(), nil
}

// skip reads the bytes of a blob that the registry has: they must be hashed, and reading is cheap compared to
// sending.
func skip(r io.Reader, n int64) error {
	got, err := io.CopyN(io.Discard, r, n)
	if errors.Is(err, io.EOF) {
		return &fetch.MismatchError{URL: "a blob to push", GotSize: got, WantSize: n}
	}
	return err
}

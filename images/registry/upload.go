package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// The pieces of a blob that are sent where a proxy refuses larger requests. They are in memory. nginx takes 1 MiB, if
// nobody changed that.
const (
	largestChunk  = 8 << 20
	smallestChunk = 512 << 10
)

// abandonTimeout is how long an interrupted program may take to cancel its upload.
const abandonTimeout = 500 * time.Millisecond

// errStalled is the cause that ends an upload that does not go on.
var errStalled = errors.New("it took no byte for too long")

// blob makes sure that the repository has a blob, and returns how. from names repositories to mount it from, if it is
// not known where it came from.
func (p *push) blob(ctx context.Context, b oci.Blob, from []string) (state State, err error) {
	h := b.Desc.Digest
	defer func() {
		if err != nil {
			err = &itemError{"blob " + h.String(), err}
			return
		}
		if state != Mounted {
			p.recordMountSource(h, p.ref.repo.Name())
		}
	}()
	if exists, err := p.hasBlob(ctx, h); err != nil || exists {
		return Exists, err
	}
	if origin := p.sibling(p.mountSource(h)); origin != "" {
		from = []string{origin}
	}
	location, mounted, err := p.mount(ctx, h, from)
	if err != nil || mounted {
		return Mounted, err
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

// mount asks the registry to take the blob from another repository. A registry that declines begins an upload instead,
// whose location mount returns. No answer is an error, because the blob can still be uploaded.
func (p *push) mount(ctx context.Context, h v1.Hash, from []string) (location string, mounted bool, err error) {
	for _, repository := range from {
		if location != "" {
			p.abandon(ctx, location)
		}
		location, mounted, err = p.begin(ctx, repository, url.Values{"mount": {h.String()}, "from": {repository}})
		if mounted || err != nil && statusOf(err) == 0 {
			return "", mounted, err
		}
	}
	return location, false, nil
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
			chunk := b.Desc.Size
			if c := p.s.chunk.Load(); c != 0 {
				chunk = min(chunk, c)
			}
			err = p.send(ctx, b, location, chunk, tries > 1)
			location = ""
			if statusOf(err) != http.StatusRequestEntityTooLarge || !p.s.shrink(chunk) {
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

// shrink makes the pieces that are sent smaller than one that was refused. It returns false if they cannot be smaller.
func (s *session) shrink(refused int64) bool {
	for next := int64(largestChunk); next >= smallestChunk; next /= 4 {
		if next < refused {
			if now := s.chunk.Load(); now == 0 || now > next {
				s.chunk.Store(next)
			}
			return true
		}
	}
	return false
}

// send sends a blob, in pieces of chunk bytes, to a place for an upload, and closes the upload. careful waits for the
// registry's consent before it sends: one that refuses it may close the connection before the answer is read.
func (p *push) send(ctx context.Context, b oci.Blob, location string, chunk int64, careful bool) (err error) {
	if location == "" {
		if location, _, err = p.begin(ctx, "", nil); err != nil {
			return final(err) // it has had its attempts
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(p.limits.commit, func() { cancel(fmt.Errorf("%w (%v)", errStalled, p.limits.commit)) })
	var body *uploadBody
	defer func() {
		idle.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		if err != nil {
			p.abandon(ctx, location)
		}
		cancel(nil)
		if body != nil {
			_ = body.Close() // of a file that was read
		}
	}()
	open := func() (_ io.ReadCloser, err error) {
		body, err = p.open(b, idle)
		return body, err
	}
	if b.Desc.Size == 0 {
		_, err = open()
	} else if chunk >= b.Desc.Size {
		location, err = p.patch(ctx, location, b.Desc.Size, -1, careful, open)
	} else if _, err = open(); err == nil {
		location, err = p.pieces(ctx, location, body, chunk, careful)
	}
	if body != nil {
		err = body.check(err)
	}
	if err != nil {
		return err
	}
	return p.commit(ctx, location, b.Desc.Digest)
}

// pieces sends a blob in several requests.
func (p *push) pieces(ctx context.Context, location string, body *uploadBody, chunk int64, careful bool) (_ string, err error) {
	size := body.source.Desc.Size
	buffer := make([]byte, chunk)
	for offset := int64(0); offset < size; offset += chunk {
		piece := buffer[:min(chunk, size-offset)]
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

// patch sends a part of a blob from offset on, or, with an offset below 0, all of it: some registries accept that only
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

// uploadBody is a blob that is sent. net/http may read it after the answer has come, until it closes the body; the lock
// is for this.
type uploadBody struct {
	idle  *time.Timer
	limit time.Duration
	sent  func(n int)

	mu     sync.Mutex
	source *oci.Verifier
	err    error // the source's error: another try cannot help
	closed bool
}

// open opens a blob for sending. Each byte that is read puts the end by idle off.
func (p *push) open(b oci.Blob, idle *time.Timer) (*uploadBody, error) {
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	event := Event{Op: "push", Ref: p.ref.text, Name: b.Desc.Digest.String(), Called: b.Name, Total: b.Desc.Size}
	p.report(event)
	return &uploadBody{idle: idle, limit: p.limits.commit, source: oci.Verify(r, b.Desc, "blob"), sent: func(n int) {
		event.Current += int64(n)
		p.report(event)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Bytes += int64(n)
	}}, nil
}

func (u *uploadBody) Read(buffer []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := u.source.Read(buffer)
	if n > 0 {
		u.sent(n)
		u.idle.Reset(u.limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// Close implements io.Closer. net/http calls it after the last byte is sent, before the answer comes.
func (u *uploadBody) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	return u.source.Close()
}

// check returns the error of a request with the blob: that of the blob if it could not be read, or if it was sent and its
// digest is wrong.
func (u *uploadBody) check(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return final(u.err)
	}
	if err != nil {
		return err
	}
	return u.source.CheckDigest()
}

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// errStalled is the cause that ends an upload of which the registry took no byte for too long.
var errStalled = errors.New("it took no byte for too long")

// uploadBody is a blob, from an offset on, as the body of a request. net/http may read it after the answer
// has come, until it closes the body; the lock is for this.
type uploadBody struct {
	timer  *time.Timer
	limits limits
	sent   func(n int)

	mu     sync.Mutex
	source *oci.Verifier
	file   io.Closer
	done   int64
	err    error // the source's error: another try cannot help
	closed bool
}

// body opens a blob for sending from offset on. cancel ends the request. The caller must call finish.
func (p *push) body(b oci.Blob, offset int64, cancel context.CancelCauseFunc) (*uploadBody, error) {
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	source := oci.Verify(r, b.Desc, "blob")
	if err := skip(source, offset); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	event := Event{Op: "push", Ref: p.ref.text, Name: b.Desc.Digest.String(), Called: b.Name, Current: offset, Total: b.Desc.Size}
	p.report(event)
	u := &uploadBody{limits: p.limits, source: source, file: r, done: offset, sent: func(n int) {
		event.Current += int64(n)
		p.report(event)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Bytes += int64(n)
	}}
	u.timer = time.AfterFunc(u.limits.stall, func() { cancel(errStalled) })
	return u, nil
}

func (u *uploadBody) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := u.source.Read(p)
	u.done += int64(n)
	if n > 0 {
		u.sent(n)
	}
	if u.done >= u.source.Desc.Size {
		u.timer.Reset(u.limits.commit)
	} else {
		u.timer.Reset(u.limits.stall)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// Close is called by net/http after the last byte is sent, before the answer comes, and by finish.
func (u *uploadBody) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	return u.file.Close()
}

// finish stops the watch over a request that has ended.
func (u *uploadBody) finish() {
	u.timer.Stop()
	_ = u.Close() // opened for reading
}

// checkDigest compares the sent bytes with the digest. The push calls it before it closes the upload.
func (u *uploadBody) CheckDigest() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return transport.Final(u.err)
	}
	if err := u.source.CheckDigest(); err != nil {
		return transport.Final(err)
	}
	return nil
}

// explain returns the cause of the error of a request with this body.
func (u *uploadBody) explain(ctx context.Context, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return transport.Final(u.err)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return fmt.Errorf("%w (%v)", errStalled, u.limits.stall)
	}
	return err
}

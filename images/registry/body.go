package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Deadlines of an upload: for the next bytes to be taken, and for the answer after the last one.
const (
	uploadStall  = 2 * time.Minute
	uploadAnswer = 10 * time.Minute
)

// errStalled is the cause of an upload given up because nothing was taken for too long.
var errStalled = errors.New("it took no byte for too long")

// uploadBody is a blob, from an offset on, as the body of a request. net/http may go on reading it after the answer came,
// until it closes it; hence the lock.
type uploadBody struct {
	ctx    context.Context //nolint:containedctx // lives as long as one request, which it cancels
	cancel context.CancelCauseFunc
	timer  *time.Timer
	sent   func(n int)

	mu     sync.Mutex
	source *verifier
	file   io.Closer
	done   int64
	err    error // why the source failed: no other try will help
	closed bool
}

// body opens a blob for sending from offset on. The caller calls finish.
func (p *push) body(ctx context.Context, b blob, offset int64) (*uploadBody, error) {
	r, err := b.open()
	if err != nil {
		return nil, err
	}
	source := verified(r, b.desc, "blob")
	if err := skip(source, offset); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	event := Event{Op: "push", Ref: p.ref.text, Name: b.desc.Digest.String(), Current: offset, Total: b.desc.Size}
	p.report(event)
	u := &uploadBody{source: source, file: r, done: offset, sent: func(n int) {
		event.Current += int64(n)
		p.report(event)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Bytes += int64(n)
	}}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.timer = time.AfterFunc(uploadStall, func() { u.cancel(errStalled) })
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
	if u.done >= u.source.desc.Size {
		u.timer.Reset(uploadAnswer)
	} else {
		u.timer.Reset(uploadStall)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// Close is called by net/http when the last byte is sent, before the answer comes, and by finish.
func (u *uploadBody) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	return u.file.Close()
}

// finish ends the request if it is still running.
func (u *uploadBody) finish() {
	u.timer.Stop()
	u.cancel(nil)
	_ = u.Close() // opened for reading
}

// verdict checks what was sent against the digest. It is asked before the upload is closed.
func (u *uploadBody) verdict() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return &finalError{u.err}
	}
	if err := u.source.verdict(); err != nil {
		return &finalError{err}
	}
	return nil
}

// explain finds the reason behind the error of a request with this body.
func (u *uploadBody) explain(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return &finalError{u.err}
	}
	if cause := context.Cause(u.ctx); errors.Is(cause, errStalled) {
		return fmt.Errorf("%w (%v)", errStalled, uploadStall)
	}
	return err
}

package runfile

import (
	"context"
	"io"
)

// readAhead reads a decompressor in a goroutine, up to 4 MiB before Read asks for the bytes.
type readAhead struct {
	cancel context.CancelFunc
	done   <-chan struct{}
	free   chan []byte
	out    chan []byte
	ended  chan struct{}
	err    error // why the reading ended; valid once out is closed
	buf    []byte
	unread []byte
}

// newReadAhead starts the goroutine, which owns and closes d. The caller must call stop.
func newReadAhead(ctx context.Context, d io.ReadCloser) *readAhead {
	ctx, cancel := context.WithCancel(ctx)
	a := &readAhead{cancel: cancel, done: ctx.Done(), free: make(chan []byte, 2*chunks), out: make(chan []byte, 2*chunks), ended: make(chan struct{})}
	for range 2 * chunks {
		a.free <- make([]byte, chunkSize)
	}
	go func() {
		defer close(a.ended)
		defer close(a.out)
		a.err = a.run(ctx, d)
		if err := d.Close(); a.err == io.EOF && err != nil { //nolint:errorlint // run returns the bare io.EOF
			a.err = err
		}
	}()
	return a
}

func (a *readAhead) run(ctx context.Context, d io.Reader) error {
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.done:
			return context.Cause(ctx)
		}
		n, err := fill(ctx, d, buf)
		if n > 0 {
			a.out <- buf[:n]
		}
		if err != nil {
			return err
		}
	}
}

// Read is for one goroutine at a time.
func (a *readAhead) Read(p []byte) (int, error) {
	if len(a.unread) == 0 {
		if a.buf != nil {
			a.free <- a.buf[:chunkSize]
			a.buf = nil
		}
		var ok bool
		if a.buf, ok = <-a.out; !ok {
			return 0, a.err
		}
		a.unread = a.buf
	}
	n := copy(p, a.unread)
	a.unread = a.unread[n:]
	return n, nil
}

// stop ends the goroutine and waits for it: at most until the Read that it is in returns.
func (a *readAhead) stop() {
	a.cancel()
	<-a.ended
}

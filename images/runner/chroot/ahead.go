package chroot

import (
	"io"
	"sync"
)

const (
	chunkSize = 1 << 20
	chunks    = 4
)

// ahead reads a source in a goroutine of its own, some chunks before its reader needs them: one goroutine
// decompresses and hashes a layer while the other writes the earlier part to disk.
type ahead struct {
	full chan []byte // read chunks, in order; closed after the last one
	free chan []byte // chunks to read into
	stop chan struct{}
	done sync.WaitGroup
	now  []byte // the unread rest of the current chunk
	back []byte // the current chunk
	err  error  // why the source ended; valid when full is closed
}

func newAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan []byte, chunks), free: make(chan []byte, chunks), stop: make(chan struct{})}
	for range chunks {
		a.free <- make([]byte, chunkSize)
	}
	a.done.Go(func() { a.fill(r) })
	return a
}

func (a *ahead) fill(r io.Reader) {
	defer close(a.full)
	for {
		var b []byte
		select {
		case b = <-a.free:
		case <-a.stop:
			return
		}
		n, err := io.ReadFull(r, b[:chunkSize])
		if err == io.ErrUnexpectedEOF { //nolint:errorlint // ReadFull's own error; a wrapped one comes from the source
			err = io.EOF
		}
		a.full <- b[:n] // never blocks: there are no more chunks than that
		if err != nil {
			a.err = err
			return
		}
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.now) == 0 {
		if a.back != nil {
			a.free <- a.back
			a.back = nil
		}
		b, ok := <-a.full
		if !ok {
			return 0, a.err
		}
		a.now, a.back = b, b
	}
	n := copy(p, a.now)
	a.now = a.now[n:]
	return n, nil
}

// wait ends the reading and waits until the goroutine no longer uses the source.
func (a *ahead) wait() {
	close(a.stop)
	a.done.Wait()
}

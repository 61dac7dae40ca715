package runfile

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

const (
	chunkSize = 256 << 10
	chunks    = 8 // in use at the same time: 2 MiB are read before the slowest reader needs them
)

// chunk is a piece of the file that several goroutines read in parallel. The last one to finish returns it to
// the feed.
type chunk struct {
	buf   []byte
	data  []byte
	users atomic.Int32
}

// feed reads the file once, in a goroutine, and passes each piece to the hashes, each in a goroutine of its
// own, and to Read. The fixed number of chunks bounds the memory: a slow reader stops the reading.
type feed struct {
	done   <-chan struct{} // done of the context of the one Extract call
	cause  func() error    // why done was closed
	free   chan *chunk
	out    chan *chunk
	err    error // why reading ended, io.EOF included; valid once out is closed
	wg     sync.WaitGroup
	now    *chunk
	unread []byte
}

// newFeed starts the goroutines. They end when src or ctx ends; wait waits for their end.
func newFeed(ctx context.Context, src io.Reader, sum *checksums) *feed {
	f := &feed{done: ctx.Done(), cause: func() error { return context.Cause(ctx) }, free: make(chan *chunk, chunks), out: make(chan *chunk, chunks)}
	for range chunks {
		f.free <- &chunk{buf: make([]byte, chunkSize)}
	}
	sinks := make([]chan *chunk, 0, len(sum.writers()))
	for _, w := range sum.writers() {
		sink := make(chan *chunk, chunks)
		sinks = append(sinks, sink)
		f.wg.Go(func() {
			for c := range sink {
				w.Write(c.data) //nolint:errcheck // hashes do not fail
				f.release(c)
			}
		})
	}
	f.wg.Go(func() {
		defer func() {
			for _, sink := range sinks {
				close(sink)
			}
			close(f.out)
		}()
		f.err = f.read(ctx, src, sinks)
	})
	return f
}

// read moves src into the channels. No send blocks: each channel has room for every chunk that exists.
func (f *feed) read(ctx context.Context, src io.Reader, sinks []chan *chunk) error {
	for {
		var c *chunk
		select {
		case c = <-f.free:
		case <-f.done:
			return f.cause()
		}
		n, err := fill(ctx, src, c.buf)
		if n > 0 {
			c.data = c.buf[:n]
			c.users.Store(int32(len(sinks) + 1))
			for _, sink := range sinks {
				sink <- c
			}
			f.out <- c
		}
		if err != nil {
			return err
		}
	}
}

// fill reads until buf is full, r fails or ctx ends. Unlike io.ReadFull it returns r's error unchanged.
func fill(ctx context.Context, r io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf) && err == nil; {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		var k int
		k, err = r.Read(buf[n:])
		n += k
		switch {
		case k > 0:
			idle = 0
		case idle > 100 && err == nil:
			err = io.ErrNoProgress
		default:
			idle++
		}
	}
	return n, err
}

func (f *feed) release(c *chunk) {
	if c.users.Add(-1) == 0 {
		f.free <- c
	}
}

// Read returns the file's bytes in order. It is for one goroutine at a time.
func (f *feed) Read(p []byte) (int, error) {
	for len(f.unread) == 0 {
		if f.now != nil {
			f.release(f.now)
			f.now = nil
		}
		var ok bool
		select {
		case f.now, ok = <-f.out:
		case <-f.done:
			return 0, f.cause()
		}
		if !ok {
			return 0, f.err
		}
		f.unread = f.now.data
	}
	n := copy(p, f.unread)
	f.unread = f.unread[n:]
	return n, nil
}

// wait returns when every goroutine has ended. Before it, the file must be read to its end or ctx must end.
func (f *feed) wait() { f.wg.Wait() }

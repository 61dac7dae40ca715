// Package readahead reads a source in a goroutine of its own, so that decompression and the work on what it
// gives run at the same time.
package readahead

import "io"

const (
	blockSize = 256 << 10 // bytes of a block
	blocks    = 8         // most blocks that are ready
)

// Reader reads its source some blocks before its caller needs them. It is for one goroutine.
type Reader struct {
	full  chan block
	free  chan []byte
	quit  chan struct{}
	ended chan struct{}
	cur   block
	pos   int
}

type block struct {
	data []byte
	err  error // follows the data
}

// New begins to read. The caller must call Stop.
func New(src io.Reader) *Reader {
	a := &Reader{
		full:  make(chan block, blocks),
		free:  make(chan []byte, blocks),
		quit:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	for range blocks {
		a.free <- nil // allocated at the first use: most packages are small
	}
	go a.fill(src)
	return a
}

func (a *Reader) fill(src io.Reader) {
	defer close(a.ended)
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.quit:
			return
		}
		if buf == nil {
			buf = make([]byte, blockSize)
		}
		// Not io.ReadFull: at an early end it returns io.ErrUnexpectedEOF, the error by which decoders report a
		// truncated stream.
		var err error
		n := 0
		for n < blockSize && err == nil {
			var m int
			m, err = src.Read(buf[n:blockSize])
			n += m
		}
		select {
		case a.full <- block{buf[:n], err}:
		case <-a.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read returns the blocks in order. The source's error follows its data, in every further call.
func (a *Reader) Read(p []byte) (int, error) {
	for a.pos == len(a.cur.data) {
		if a.cur.err != nil {
			return 0, a.cur.err
		}
		if a.cur.data != nil {
			a.free <- a.cur.data // never blocks: there are no more blocks
		}
		a.cur, a.pos = <-a.full, 0
	}
	n := copy(p, a.cur.data[a.pos:])
	a.pos += n
	return n, nil
}

// Stop ends the reading. After it the source is not used any more.
func (a *Reader) Stop() {
	close(a.quit)
	<-a.ended
}

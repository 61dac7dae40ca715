package dpkg

import "io"

const (
	aheadBlock  = 256 << 10 // bytes of a block
	aheadBlocks = 8         // most blocks that are ready
)

// readAhead reads its source in a goroutine of its own, so that unpacking continues while the consumer works.
// The caller must call stop; after that the goroutine does not use the source any more.
type readAhead struct {
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

func newReadAhead(src io.Reader) *readAhead {
	a := &readAhead{
		full:  make(chan block, aheadBlocks),
		free:  make(chan []byte, aheadBlocks),
		quit:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	for range aheadBlocks {
		a.free <- nil // allocated at the first use: most packages are small
	}
	go a.fill(src)
	return a
}

func (a *readAhead) fill(src io.Reader) {
	defer close(a.ended)
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.quit:
			return
		}
		if buf == nil {
			buf = make([]byte, aheadBlock)
		}
		// Not io.ReadFull: at an early end it returns io.ErrUnexpectedEOF, the error by which decoders report a
		// truncated stream.
		var err error
		n := 0
		for n < aheadBlock && err == nil {
			var m int
			m, err = src.Read(buf[n:aheadBlock])
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
func (a *readAhead) Read(p []byte) (int, error) {
	for a.pos == len(a.cur.data) {
		if a.cur.err != nil {
			return 0, a.cur.err
		}
		if a.cur.data != nil {
			a.free <- a.cur.data // never blocks: there are only aheadBlocks blocks
		}
		a.cur, a.pos = <-a.full, 0
	}
	n := copy(p, a.cur.data[a.pos:])
	a.pos += n
	return n, nil
}

func (a *readAhead) stop() {
	close(a.quit)
	<-a.ended
}

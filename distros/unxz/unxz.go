// Package unxz decompresses .xz streams by the machine's xz program where that is faster, else in Go. The
// result does not depend on the way: whenever the program fails, or its output differs from what the stream's
// index and checksums say, the decoder in Go takes over, and its error counts.
//
// It knows no archives: its callers say where a stream begins and ends.
package unxz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/mikelolasagasti/xz"
)

// patience is how long a read waits for the program. A program that is slower than this is not used again.
const patience = time.Minute

// smallest is the fewest bytes of content that are worth a process: below, to start one takes more processor
// time than it saves.
const smallest = 256 << 10

// ErrProgram says that the program returned other bytes than the stream has, so that what was made of them is
// wrong.
var ErrProgram = errors.New("the xz program returned wrong data")

// Decoder decompresses with the xz program. It may be used by several goroutines. A nil Decoder decompresses
// in Go.
type Decoder struct {
	path     string
	report   func(error)
	patience time.Duration
	failed   atomic.Bool // the program failed with a sound stream: it is not used any more
}

// Find returns a decoder with the xz program of this machine; nil if there is none. report is called at most
// once, when the program fails with a sound stream.
func Find(report func(error)) *Decoder {
	path, err := exec.LookPath("xz")
	if err != nil {
		return nil
	}
	return &Decoder{path: path, report: report, patience: patience}
}

// Open returns the content of the stream that begins at an offset of a file and has size bytes; -1: to
// the end of the file. first is the same stream, for readers that count or hash what they read; it is at
// its end when the content is. Open begins to read first, in a goroutine until Close returns. dictionary
// bounds the memory.
type Open func(first io.Reader, offset, size int64, dictionary uint32) (io.ReadCloser, error)

// In returns how streams of a file are opened. It ends the program when ctx ends. A nil Decoder returns nil,
// which readers of archives take as: in Go.
func (d *Decoder) In(ctx context.Context, file io.ReaderAt, length int64) Open {
	if d == nil {
		return nil
	}
	return func(first io.Reader, offset, size int64, dictionary uint32) (io.ReadCloser, error) {
		if size < 0 {
			size = length - offset
		}
		return d.open(ctx, first, io.NewSectionReader(file, offset, size), dictionary)
	}
}

// InGo returns the content of a stream, decompressed in Go. The decoder checks a stream's index with a running
// hash and does not store it, and it refuses a dictionary above the bound before it allocates it.
func InGo(in io.Reader, dictionary uint32) (io.ReadCloser, error) {
	x, err := xz.NewReader(in, dictionary)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(x), nil
}

func (d *Decoder) open(ctx context.Context, first io.Reader, again *io.SectionReader, dictionary uint32) (io.ReadCloser, error) {
	blocks, err := readIndex(again, dictionary)
	if err != nil || d.failed.Load() || contentSize(blocks) < smallest {
		return InGo(first, dictionary) // it says what is wrong with the stream
	}
	r := &reader{decoder: d, ctx: ctx, first: first, again: again, dictionary: dictionary, check: newChecker(blocks)}
	if r.process, err = start(ctx, d.path, first, dictionary); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d.distrust(err)
		return InGo(first, dictionary)
	}
	return r, nil
}

// distrust notes that the program failed with a sound stream.
func (d *Decoder) distrust(err error) {
	if d.failed.CompareAndSwap(false, true) && d.report != nil {
		d.report(fmt.Errorf("%s failed, everything more is decompressed in Go: %w; repair it, or use --no-helpers", d.path, err))
	}
}

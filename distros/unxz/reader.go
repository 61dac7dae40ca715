package unxz

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
)

// reader is the content of a stream by the program, and by the decoder in Go once the program has failed.
type reader struct {
	decoder    *Decoder
	ctx        context.Context //nolint:containedctx // lives as long as one stream, which it cancels
	first      io.Reader
	again      *io.SectionReader
	dictionary uint32

	process   *process
	check     *checker
	delivered int64
	sum       maphash.Hash // of what was delivered

	failure error         // why the program was given up; nil while it runs
	inGo    io.ReadCloser // after that
	err     error         // ends all further reads
}

func (r *reader) Read(p []byte) (n int, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.failure == nil {
		n, err = r.readProgram(p)
	}
	if r.failure != nil {
		n, err = r.readInGo(p)
	}
	if err == io.EOF { //nolint:errorlint // only the bare io.EOF is an end
		if _, drained := io.Copy(io.Discard, r.first); drained != nil {
			err = drained
		}
	}
	r.err = err
	return n, err
}

func (r *reader) readInGo(p []byte) (n int, err error) {
	if r.inGo == nil {
		if err := r.takeOver(); err != nil {
			return 0, err
		}
	}
	if err := r.stopped(); err != nil {
		return 0, err
	}
	n, err = r.inGo.Read(p)
	if errors.Is(err, io.EOF) {
		r.decoder.distrust(r.failure)
	}
	return n, err
}

func (r *reader) stopped() error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	return nil
}

// readProgram sets failure if the program cannot be trusted with this stream.
func (r *reader) readProgram(p []byte) (int, error) {
	n, err := r.process.read(p, r.decoder.patience)
	if bad := r.check.add(p[:n]); bad != nil {
		r.failure = bad
		return 0, nil //nolint:nilerr // the decoder in Go takes over
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) && n == 0:
		r.failure = errors.Join(r.process.wait(r.decoder.patience), r.check.end())
	default:
		r.failure = err
	}
	if r.failure != nil {
		return 0, nil //nolint:nilerr // as above
	}
	r.delivered += int64(n)
	r.sum.Write(p[:n]) //nolint:errcheck // it never fails
	return n, err
}

// takeOver lets the decoder in Go continue where the program failed. It reads the stream again from its
// beginning: what was delivered must be what it finds.
func (r *reader) takeOver() error {
	r.process.stop()
	if err := r.stopped(); err != nil {
		return err
	}
	inGo, err := InGo(r.again, r.dictionary)
	if err != nil {
		return err
	}
	var sum maphash.Hash
	sum.SetSeed(r.sum.Seed())
	buf := make([]byte, feedSize)
	for left := r.delivered; left > 0; {
		if err := r.stopped(); err != nil {
			return err
		}
		n, err := inGo.Read(buf[:min(left, feedSize)])
		sum.Write(buf[:n]) //nolint:errcheck // it never fails
		if left -= int64(n); left > 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w (%s): %d bytes too many", ErrProgram, r.decoder.path, left)
			}
			return err
		}
	}
	if sum.Sum64() != r.sum.Sum64() {
		r.decoder.distrust(r.failure)
		return fmt.Errorf("%w (%s): repair it, or use --no-helpers", ErrProgram, r.decoder.path)
	}
	r.inGo = inGo
	return nil
}

// Close ends the program. Nothing reads the sources after it.
func (r *reader) Close() error {
	r.process.stop()
	r.err = errors.New("the stream is closed")
	return nil
}

package dpkg

import (
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/driver-container/driver-container/distros/unxz"
)

// Bounds of the memory, in bytes, that a compressed stream may allocate: the need of the strongest usual
// level.
const (
	maxDictionary = 64 << 20  // xz -9
	maxWindow     = 128 << 20 // zstd --ultra -22
)

// Unpack returns a reader of the content of a stream, as Decompress does, that ends with ErrFormat after most
// bytes. A damaged stream is ErrFormat too; errors of r are its own. open is for an .xz stream; nil: in Go.
func Unpack(r io.Reader, ending string, most int64, open unxz.Open) (io.ReadCloser, error) {
	raw := &sourceError{in: r}
	in, err := decompress(raw, ending, open)
	if err != nil {
		return nil, raw.classify(err)
	}
	return &unpacked{limited(in, most), in, raw}, nil
}

// unpacked is the content of a compressed stream.
type unpacked struct {
	*limitReader
	io.Closer
	raw *sourceError
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.limitReader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.raw.classify(err)
	}
	return n, err
}

// sourceError keeps the error of a source, which decoders may replace by their own.
type sourceError struct {
	in  io.Reader
	err error
}

func (s *sourceError) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (s *sourceError) classify(err error) error {
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// decompress is Decompress, of an .xz stream by open if it is not nil.
func decompress(r io.Reader, ending string, open unxz.Open) (io.ReadCloser, error) {
	if ending == ".xz" && open != nil {
		return open(r, maxDictionary)
	}
	return Decompress(r, ending)
}

// Decompress returns a reader of the content of a stream. ending is the one that dpkg gives to member names:
// "" (plain), ".gz", ".xz" or ".zst"; and ".bz2". Close frees the reader's memory; it does not close r.
func Decompress(r io.Reader, ending string) (io.ReadCloser, error) {
	switch ending {
	case "":
		return io.NopCloser(r), nil
	case ".gz":
		return gzip.NewReader(r)
	case ".bz2":
		return io.NopCloser(bzip2.NewReader(r)), nil
	case ".xz":
		return unxz.InGo(r, maxDictionary)
	case ".zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("compression %q is not supported: want none, .gz, .xz or .zst", ending)
}

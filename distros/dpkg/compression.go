package dpkg

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/compression"
)

// Unpack returns a reader of the content of a stream, as Decompress does, that ends with ErrFormat after most
// bytes. A damaged stream is ErrFormat too; errors of r are its own. open is for an .xz stream; nil: in Go.
func Unpack(r io.Reader, ending string, most int64, open compression.OpenXZ) (io.ReadCloser, error) {
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
func decompress(r io.Reader, ending string, open compression.OpenXZ) (io.ReadCloser, error) {
	if ending == ".xz" && open != nil {
		return open(r)
	}
	return Decompress(r, ending)
}

// kinds are the compressions, by the endings that dpkg gives to member names.
var kinds = map[string]string{"": "", ".gz": compression.Gzip, ".xz": compression.XZ, ".zst": compression.Zstd, ".bz2": compression.Bzip2}

// Decompress returns a reader of the content of a stream. ending is the one that dpkg gives to member names:
// "" (plain), ".gz", ".xz" or ".zst"; and ".bz2". Close frees the reader's memory; it does not close r.
func Decompress(r io.Reader, ending string) (io.ReadCloser, error) {
	kind, ok := kinds[ending]
	if !ok {
		return nil, fmt.Errorf("compression %q is not supported: want none, .gz, .xz or .zst", ending)
	}
	return compression.NewReader(r, kind)
}

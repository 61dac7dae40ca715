package dpkg

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
)

// Unpack returns a reader of the content of a stream, as Decompress does, that ends with ErrFormat after most
// bytes. A damaged stream is ErrFormat too; errors of r are its own. open is for an .xz stream; nil: in Go.
func Unpack(r io.Reader, ending string, most int64, open compression.OpenXZ) (io.ReadCloser, error) {
	raw := &bounded.Source{Reader: r}
	in, err := decompress(raw, ending, open)
	if err != nil {
		return nil, classify(raw, err)
	}
	return &unpacked{limited(in, most), in, raw}, nil
}

// unpacked is the content of a compressed stream.
type unpacked struct {
	*bounded.Limited
	io.Closer
	raw *bounded.Source
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Limited.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = classify(u.raw, err)
	}
	return n, err
}

// classify returns the error of the source itself, which decoders may replace by their own; others are ErrFormat.
func classify(raw *bounded.Source, err error) error {
	if raw.Err != nil {
		return raw.Err
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

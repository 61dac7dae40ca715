package dpkg

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
)

// Unpack returns a reader of the content of a stream, which ends with ErrFormat after most bytes.
// ending is the one that dpkg gives to member names: "" (plain), ".gz", ".xz", ".zst" or ".bz2". A
// damaged stream is ErrFormat; errors of r are its own. open is for an .xz stream; nil: in Go.
// Close frees the reader's memory; it does not close r.
func Unpack(
	r io.Reader,
	ending string,
	most int64,
	open compression.OpenXZ,
) (io.ReadCloser, error) {
	raw := &bounded.Source{Reader: r}
	in, err := decompress(raw, ending, open)
	if err != nil {
		return nil, classify(raw, err)
	}
	tooMuch := fmt.Errorf("%w: it unpacks to more than %d bytes", ErrFormat, most)
	return &unpacked{&bounded.Limited{Reader: in, Left: most, Err: tooMuch}, in, raw}, nil
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

// classify returns the error of the source itself, which decoders may replace by their own; others
// are ErrFormat.
func classify(raw *bounded.Source, err error) error {
	if raw.Err != nil {
		return raw.Err
	}
	return malformed(err)
}

// malformed makes an error ErrFormat, once.
func malformed(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// kinds are the compressions, by the endings that dpkg gives to member names.
var kinds = map[string]string{
	"":     "",
	".gz":  compression.Gzip,
	".xz":  compression.XZ,
	".zst": compression.Zstd,
	".bz2": compression.Bzip2,
}

func decompress(r io.Reader, ending string, open compression.OpenXZ) (io.ReadCloser, error) {
	if ending == ".xz" && open != nil {
		return open(r)
	}
	kind, ok := kinds[ending]
	if !ok {
		return nil, fmt.Errorf(
			"compression %q is not supported: want none, .gz, .xz or .zst",
			ending,
		)
	}
	return compression.NewReader(r, kind)
}

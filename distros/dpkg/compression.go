package dpkg

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
)

// Bounds on the memory that a compressed stream may make us allocate, each what the strongest usual level needs.
const (
	maxDictionary = 64 << 20  // xz -9
	maxWindow     = 128 << 20 // zstd --ultra -22
)

// Decompress returns a reader of what a stream holds, by the ending that dpkg gives to member names: "" (plain), ".gz",
// ".xz" or ".zst". Closing it frees what it holds; the stream below is left alone.
func Decompress(r io.Reader, ending string) (io.ReadCloser, error) {
	switch ending {
	case "":
		return io.NopCloser(r), nil
	case ".gz":
		return gzip.NewReader(r)
	case ".xz":
		// Of the two decoders in pure Go this one is faster by a third (data.tar of gcc-12, 70 MB: 46 MB/s against 34; the
		// C library 65) and checks a stream's index by a running hash instead of storing it.
		x, err := xz.NewReader(r, maxDictionary)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(x), nil
	case ".zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("compression %q is not supported: want none, .gz, .xz or .zst", ending)
}

package rpmfile

import (
	"bufio"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/dpkg"
)

// maxDictionary limits the memory that an .xz stream can make the reader allocate; level 9 needs this much.
const maxDictionary = 64 << 20

// endings are the compressions of payloads, by the names that headers have for them.
var endings = map[string]string{"gzip": ".gz", "xz": ".xz", "zstd": ".zst", "bzip2": ".bz2"}

// decompress returns the unpacked payload. The header names the compression; without a name the payload is
// either gzip or not compressed, which rpm lets zlib detect.
func (f *File) decompress(in *bufio.Reader, name string) (io.ReadCloser, error) {
	if start, err := in.Peek(2); name == "" && (err != nil || string(start) != "\x1f\x8b") {
		return io.NopCloser(in), nil //nolint:nilerr // a payload of less than two bytes is not compressed
	} else if name == "" {
		name = "gzip"
	}
	if name == "xz" && f.XZ != nil {
		return f.XZ(in, maxDictionary)
	}
	ending, ok := endings[name]
	if !ok {
		return nil, fmt.Errorf("compression %.40q is not supported: want gzip, xz, zstd, bzip2 or none", name)
	}
	return dpkg.Decompress(in, ending)
}

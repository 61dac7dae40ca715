package rpmfile

import (
	"bufio"
	"io"

	"github.com/driver-container/driver-container/distros/compression"
)

// decompress returns the unpacked payload. The header names the compression; without a name the
// payload is either gzip or not compressed, which rpm lets zlib detect.
func (f *File) decompress(in *bufio.Reader, name string) (io.ReadCloser, error) {
	if name == "" {
		detected, err := compression.Detect(in)
		if err != nil || detected != compression.Gzip {
			return io.NopCloser(in), err
		}
		name = detected
	}
	if name == compression.XZ && f.XZ != nil {
		return f.XZ(in)
	}
	return compression.NewReader(in, name)
}

package rpmfile

import (
	"bufio"
	"compress/bzip2"
	"fmt"
	"io"

	"github.com/ulikunitz/xz/lzma"

	"github.com/driver-container/driver-container/distros/dpkg"
)

// maxDictionary limits the memory that an LZMA stream can make the reader allocate; level 9 needs this much.
const maxDictionary = 64 << 20

// payloadOffset is where the payload begins in the file.
func (f *File) payloadOffset() int64 {
	signature := int64(len(headerMagic) + len(f.Signature.Bytes()))
	return leadSize + (signature+7)&^7 + int64(len(headerMagic)+len(f.Header.Bytes()))
}

// decompress returns the unpacked payload. The header names the compression; without a name the payload is
// either gzip or not compressed, which rpm lets zlib detect.
func (f *File) decompress(in *bufio.Reader, name string) (io.ReadCloser, error) {
	switch name {
	case "":
		if start, err := in.Peek(2); err == nil && string(start) == "\x1f\x8b" {
			return dpkg.Decompress(in, ".gz")
		}
		return io.NopCloser(in), nil
	case "gzip":
		return dpkg.Decompress(in, ".gz")
	case "xz":
		if f.XZ != nil {
			return f.XZ(in, f.payloadOffset(), -1, maxDictionary)
		}
		return dpkg.Decompress(in, ".xz")
	case "zstd":
		return dpkg.Decompress(in, ".zst")
	case "bzip2":
		return io.NopCloser(bzip2.NewReader(in)), nil
	case "lzma":
		z, err := lzma.ReaderConfig{DictCap: maxDictionary}.NewReader(in)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	}
	return nil, fmt.Errorf("compression %.40q is not supported: want gzip, xz, zstd, bzip2, lzma or none", name)
}

package oci

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory, in bytes, that a zstd frame may request: `zstd -19 --long=27` still works.
const maxWindow = 128 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// unpacked reads decompressed content. At the end of the content it reads the rest of the source too, so that
// a verifying source sees all of its bytes and can report an error.
type unpacked struct {
	io.Reader
	source io.Reader
	close  func() error
}

// decompress detects gzip, zstd or neither from the first bytes, because media types can be wrong. After an
// error the source stays open.
func decompress(source io.ReadCloser) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(source, 256<<10)
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		return &unpacked{z, in, func() error { return errors.Join(z.Close(), source.Close()) }}, nil
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return &unpacked{z, in, func() error { z.Close(); return source.Close() }}, nil
	}
	return &unpacked{in, in, source.Close}, nil
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if _, err := io.Copy(io.Discard, u.source); err != nil {
			return n, err
		}
	}
	return n, err
}

func (u *unpacked) Close() error { return u.close() }

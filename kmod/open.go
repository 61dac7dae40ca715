package kmod

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	maxUnpacked = 512 << 20 // bytes; the largest module known, NVIDIA's open one with debug information, has 185 MiB
	maxWindow   = 64 << 20  // bytes of memory that zstd and xz may use: xz -9 needs it, kernel builds 8 MiB or less
)

// moduleFile is a module's uncompressed content.
type moduleFile struct {
	*os.File
	data io.ReaderAt
	size int64
}

// openModule opens a module file. It unpacks a compressed one into memory.
func openModule(path string) (*moduleFile, error) {
	f, kind, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if kind == "" {
		return &moduleFile{File: f, data: f, size: st.Size()}, nil
	}
	plain, err := unpack(io.NewSectionReader(f, 0, st.Size()), kind, maxUnpacked)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &moduleFile{File: f, data: bytes.NewReader(plain), size: int64(len(plain))}, nil
}

// openRegular opens a file and returns its compression. It refuses a pipe or device of that name and never
// waits for one.
func openRegular(path string) (f *os.File, kind string, err error) {
	f, err = bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	magic := make([]byte, 6)
	n, err := f.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	return f, compression(magic[:n]), nil
}

// compression returns the compression that the first bytes of a file announce; "" for none.
func compression(magic []byte) string {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		return "xz"
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	}
	return ""
}

// unpack reads a whole compressed module, at most limit bytes.
func unpack(r io.Reader, kind string, limit int64) ([]byte, error) {
	var plain io.Reader
	switch kind {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, damaged(kind, err)
		}
		plain = z
	case "xz":
		z, err := xz.NewReader(r, maxWindow)
		if err != nil {
			return nil, damaged(kind, err)
		}
		plain = z
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, damaged(kind, err)
		}
		defer z.Close()
		plain = z
	}
	b, err := io.ReadAll(io.LimitReader(plain, limit+1))
	if err != nil {
		return nil, damaged(kind, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: more than %d MiB when unpacked", ErrFormat, limit>>20)
	}
	return b, nil
}

func damaged(kind string, err error) error {
	return fmt.Errorf("%w: damaged %s data: %w", ErrFormat, kind, err)
}

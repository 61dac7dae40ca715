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
	"github.com/driver-container/driver-container/kmod/sign"
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
	m := &moduleFile{File: f, data: f}
	if kind == "" {
		var st os.FileInfo
		if st, err = f.Stat(); err == nil {
			m.size = st.Size()
		}
	} else {
		var plain []byte
		plain, err = unpack(f, kind, maxUnpacked)
		m.data, m.size = bytes.NewReader(plain), int64(len(plain))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

// openRegular opens a file and returns its compression, "" for none. It refuses a pipe or device of that name
// and never waits for one.
func openRegular(path string) (f *os.File, kind string, err error) {
	f, err = bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return nil, "", err
	}
	if kind, err = sign.Compression(f); err != nil {
		f.Close()
		return nil, "", err
	}
	return f, kind, nil
}

// unpack reads a whole compressed module, at most limit bytes.
func unpack(r io.Reader, kind string, limit int64) ([]byte, error) {
	plain, err := decompress(r, kind)
	if err != nil {
		return nil, fmt.Errorf("%w: damaged %s data: %w", ErrFormat, kind, err)
	}
	defer plain.Close()
	b, err := io.ReadAll(io.LimitReader(plain, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: damaged %s data: %w", ErrFormat, kind, err)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%w: more than %d MiB when unpacked", ErrFormat, limit>>20)
	}
	return b, nil
}

func decompress(r io.Reader, kind string) (io.ReadCloser, error) {
	switch kind {
	case "gzip":
		return gzip.NewReader(r)
	case "xz":
		z, err := xz.NewReader(r, maxWindow)
		return io.NopCloser(z), err
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/kmod/sign"
)

// maxUnpacked bounds the content of a compressed module, in bytes; the largest module known, NVIDIA's open one with
// debug information, has 185 MiB.
const maxUnpacked = 512 << 20

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
	plain, err := compression.NewReader(r, kind)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	defer plain.Close()
	b, err := bounded.Read(plain, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: unpack it: %w", ErrFormat, err)
	}
	return b, nil
}

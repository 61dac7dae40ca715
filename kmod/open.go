package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/containerd/continuity/fs"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/kmod/sign"
)

// maxUnpacked bounds the content of a compressed module, in bytes; the largest module known,
// NVIDIA's open one with debug information, has 185 MiB.
const maxUnpacked = 512 << 20

// openModule opens a module file, and returns its size too.
func openModule(path string) (*os.File, int64, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// plain returns the uncompressed content of a module file, and its size. It unpacks a compressed
// one into memory.
func plain(content io.ReaderAt, size int64) (io.ReaderAt, int64, error) {
	kind, err := sign.Compression(content)
	if err != nil || kind == "" {
		return content, size, err
	}
	b, err := unpack(io.NewSectionReader(content, 0, size), kind, maxUnpacked)
	return bytes.NewReader(b), int64(len(b)), err
}

// openRegular opens a file and returns its compression, "" for none. It refuses a pipe or device of
// that name and never waits for one.
func openRegular(path string) (f *os.File, kind string, err error) {
	f, err = bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return nil, "", err
	}
	kind, err = sign.Compression(f)
	if err != nil {
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

// IsFile reports whether a path leads to a regular file.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Within follows path inside root as if root were "/": absolute links start at root, and ".." does
// not leave it. The result is an existing path below root without links.
func Within(root, path string) (string, error) {
	inside, err := fs.RootPath(root, path)
	if err != nil {
		return inside, err
	}
	_, err = os.Lstat(inside)
	return inside, err
}

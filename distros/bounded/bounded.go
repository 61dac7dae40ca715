// Package bounded reads small files whole, looks for a text in larger ones, and refuses those that are larger
// than the caller expects. It does not know what is in a file.
package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// TooLargeError is the error for content beyond the limit.
type TooLargeError struct {
	Limit int64 // in bytes
}

func (e *TooLargeError) Error() string { return fmt.Sprintf("larger than %d bytes", e.Limit) }

// Read returns all that r gives. More than limit bytes are a [*TooLargeError].
func Read(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &TooLargeError{limit}
	}
	return data, nil
}

// File returns the content of a file of this machine.
func File(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readAndClose(f, path, limit)
}

// Regular returns the content of a file of this machine. Anything else than a regular file is refused,
// without waiting for a writer of a pipe.
func Regular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > limit {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, limit)
	}
	return Read(f, limit)
}

// Text returns the content of a file of this machine as text.
func Text(path string, limit int64) (string, error) {
	data, err := File(path, limit)
	return string(data), err
}

// Head returns up to limit bytes from the start of a file of this machine, and nothing if the file cannot be
// read: for callers that have another source, or a better message.
func Head(path string, limit int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	return data
}

// FSFile returns the content of a file below root.
func FSFile(root fs.FS, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return readAndClose(f, name, limit)
}

// Contains reports whether content has a text. It keeps a megabyte of it in memory. If the text is not in the
// first limit bytes and more follow, the error is a [*TooLargeError].
func Contains(r io.Reader, text string, limit int64) (bool, error) {
	r = io.LimitReader(r, limit+1)
	buf, kept, seen := make([]byte, 1<<20), 0, int64(0)
	for {
		n, err := r.Read(buf[kept:])
		all := buf[:kept+n]
		seen += int64(n)
		switch {
		case seen > limit:
			return false, &TooLargeError{limit}
		case bytes.Contains(all, []byte(text)):
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		kept = copy(buf, all[max(0, len(all)-len(text)+1):])
	}
}

func readAndClose(f io.ReadCloser, name string, limit int64) ([]byte, error) {
	defer f.Close() //nolint:errcheck // opened for reading
	data, err := Read(f, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

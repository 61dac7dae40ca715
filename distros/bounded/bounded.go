// Package bounded reads small files whole, and refuses those that are larger than the caller expects. It does
// not read streams piece by piece and does not know what is in a file.
package bounded

import (
	"fmt"
	"io"
	"io/fs"
	"os"
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

// Text returns the content of a file of this machine as text.
func Text(path string, limit int64) (string, error) {
	data, err := File(path, limit)
	return string(data), err
}

// FSFile returns the content of a file below root.
func FSFile(root fs.FS, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return readAndClose(f, name, limit)
}

func readAndClose(f io.ReadCloser, name string, limit int64) ([]byte, error) {
	defer f.Close() //nolint:errcheck // opened for reading
	data, err := Read(f, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

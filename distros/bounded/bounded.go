// Package bounded opens the files that users name, reads small ones whole, looks for a text in
// larger ones, and refuses those that are larger than the caller expects. It does not know what is
// in a file.
package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/failure"
)

// ErrTooLarge is the error for content beyond the limit.
var ErrTooLarge = failure.New(failure.Content, "larger")

// TooLarge returns ErrTooLarge with the limit, in bytes.
func TooLarge(limit int64) error { return fmt.Errorf("%w than %d bytes", ErrTooLarge, limit) }

// Read returns all that r gives. More than limit bytes are a [ErrTooLarge].
func Read(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, TooLarge(limit)
	}
	return data, nil
}

// Source keeps an error of its reader. A decoder above it may replace that error by one of its own.
type Source struct {
	io.Reader
	Err error // other than io.EOF
}

func (s *Source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.Err = err
	}
	return n, err
}

// Limited fails when its reader gives more than Left bytes, or when Stop says so.
type Limited struct {
	io.Reader
	Left int64
	Err  error        // for more bytes
	Stop func() error // nil: never
}

func (l *Limited) Read(p []byte) (int, error) {
	if l.Stop != nil {
		if err := l.Stop(); err != nil {
			return 0, err
		}
	}
	n, err := l.Reader.Read(p)
	if l.Left -= int64(n); l.Left < 0 {
		return 0, l.Err
	}
	return n, err
}

// ErrNotRegular is the error for a path that leads to no regular file.
var ErrNotRegular = failure.New(failure.Usage, "not a regular file")

// Open opens a regular file of this machine to read it. It refuses folders, devices, sockets and
// pipes, and never waits for the writer of a pipe: whatever a user names is opened here. A read of
// a file of the kernel that waits for an event, such as /proc/kmsg, ends with
// os.ErrDeadlineExceeded within two seconds.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	err = regular(path, f.Stat)
	if err != nil {
		f.Close()
		return nil, err
	}
	limitWait(f)
	return f, nil
}

func regular(path string, stat func() (fs.FileInfo, error)) error {
	st, err := stat()
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() {
		return nil
	}
	err = fmt.Errorf("%w but %s", ErrNotRegular, Kind(st.Mode()))
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

// Kind says what a file is that is no regular one: "a folder".
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// File returns the content of a file that [Open] opens.
func File(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
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

// Head returns up to limit bytes from the start of a file of this machine, and nothing if the file
// cannot be read: for callers that have another source, or a better message.
func Head(path string, limit int64) []byte {
	f, err := Open(path)
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

// FSFile returns the content of a regular file below root.
func FSFile(root fs.FS, name string, limit int64) ([]byte, error) {
	err := regular(name, func() (fs.FileInfo, error) { return fs.Stat(root, name) })
	if err != nil {
		return nil, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return readAndClose(f, name, limit)
}

// Contains reports whether content has a text. It keeps a megabyte of it in memory. If the text is
// not in the first limit bytes and more follow, the error is a [ErrTooLarge].
func Contains(r io.Reader, text string, limit int64) (bool, error) {
	r = io.LimitReader(r, limit+1)
	buf := make([]byte, 1<<20)
	kept := 0
	seen := int64(0)
	for {
		n, err := r.Read(buf[kept:])
		all := buf[:kept+n]
		seen += int64(n)
		switch {
		case seen > limit:
			return false, TooLarge(limit)
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

func readAndClose(f fs.File, name string, limit int64) (data []byte, err error) {
	defer f.Close()       //nolint:errcheck // opened for reading
	const page = 64 << 10 // the size that files of sysfs state, whatever they hold
	if st, serr := f.Stat(); serr == nil && st.Size() > max(limit, page) {
		err = TooLarge(limit)
	} else {
		data, err = Read(f, limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w but a stream of the kernel that does not end", ErrNotRegular)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// Buffer keeps at most Limit bytes and drops what is more. It embeds no bytes.Buffer, because
// io.Copy would fill that past the limit by ReadFrom.
type Buffer struct {
	Kept  []byte
	Limit int
	More  bool
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	part := p[:min(len(p), b.Limit-len(b.Kept))]
	b.Kept = append(b.Kept, part...)
	b.More = b.More || len(part) < len(p)
	return len(p), nil
}

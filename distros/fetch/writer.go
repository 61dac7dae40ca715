package fetch

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinished is a locked file in progress.
type unfinished struct {
	file *os.File
	sums sums
	size int64
}

// Write adds bytes. The error for a full disk has the path and satisfies errors.Is(err,
// syscall.ENOSPC).
func (c *unfinished) Write(p []byte) (int, error) {
	n, err := c.file.Write(p)
	_, _ = c.sums.Write(p[:n]) // a hash never fails
	c.size += int64(n)
	if err != nil {
		return n, &localError{fmt.Errorf("write to cache: %w", err)}
	}
	return n, nil
}

// Writer takes content with an unknown digest, in any number of writes. It is not safe for
// concurrent use.
type Writer struct {
	unfinished
	store *Store
}

// writing begins the names of files that a Writer writes.
const writing = "new-"

// Create begins new content in the store.
func (s *Store) Create() (*Writer, error) {
	for range 100 {
		path := filepath.Join(s.dir, partialDir, writing+rand.Text())
		f, err := tryLock(path, os.O_CREATE|os.O_EXCL)
		if err != nil {
			return nil, fmt.Errorf("create a file in cache %s: %w", s.dir, err)
		}
		if f != nil {
			return &Writer{unfinished{file: f, sums: newSums(File{})}, s}, nil
		}
	}
	return nil, fmt.Errorf(
		"create a file in cache %s: another process removes new files at once",
		s.dir,
	)
}

// Commit adds the written content to the store and returns its digest and its size in bytes. It
// does not store content twice. After Commit or Close, Write and Commit return fs.ErrClosed.
func (w *Writer) Commit() (sha256hex string, size int64, err error) {
	if err := errors.Join(w.store.publish(w.file, w.sums), w.Close()); err != nil {
		return "", 0, fmt.Errorf("commit to cache: %w", err)
	}
	return w.sums.sha256(), w.size, nil
}

// Close discards content that was not committed; after Commit it does nothing.
func (w *Writer) Close() error {
	err := ignoreMissing(os.Remove(w.file.Name())) // in this order: the lock ends with the file
	if closed := w.file.Close(); !errors.Is(closed, fs.ErrClosed) {
		err = errors.Join(err, closed)
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", w.file.Name(), err)
	}
	return nil
}

// Put adds small content to the store and returns its digest.
func (s *Store) Put(data []byte) (sha256hex string, err error) {
	return s.PutFrom(bytes.NewReader(data))
}

// PutFrom adds what a reader has to the store and returns its digest.
func (s *Store) PutFrom(r io.Reader) (sha256hex string, err error) {
	w, err := s.Create()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	_, err = io.Copy(w, r)
	if err != nil {
		return "", err
	}
	sha256hex, _, err = w.Commit()
	return sha256hex, err
}

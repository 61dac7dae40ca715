package fetch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Writer takes content with an unknown digest, in any number of writes. It is not safe for concurrent use.
type Writer struct {
	store *Store
	file  *os.File
	sums  sums
	size  int64
	sum   string // set by Commit
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
			return &Writer{store: s, file: f, sums: newSums(File{})}, nil
		}
	}
	return nil, fmt.Errorf("create a file in cache %s: another process removes new files at once", s.dir)
}

// Write adds bytes. The error for a full disk has the path and satisfies errors.Is(err, syscall.ENOSPC).
func (w *Writer) Write(p []byte) (int, error) {
	if w.file == nil {
		return 0, fmt.Errorf("write to cache: %w", fs.ErrClosed)
	}
	n, err := w.file.Write(p)
	_, _ = w.sums.Write(p[:n]) // a hash never fails
	w.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write to cache: %w", diskFull(w.file.Name(), err))
	}
	return n, nil
}

// Commit adds the written content to the store and returns its digest and its size in bytes. It does not
// store content twice. A second Commit returns the same.
func (w *Writer) Commit() (sha256hex string, size int64, err error) {
	if w.sum != "" {
		return w.sum, w.size, nil
	}
	if w.file == nil {
		return "", 0, fmt.Errorf("commit to cache: %w", fs.ErrClosed)
	}
	if err := w.store.publish(w.file, w.sums); err != nil {
		return "", 0, errors.Join(err, w.Close())
	}
	w.sum = w.sums.sha256()
	err = w.file.Close()
	w.file = nil
	if err != nil {
		return "", 0, fmt.Errorf("commit to cache: %w", err)
	}
	return w.sum, w.size, nil
}

// Close discards content that was not committed; after Commit it does nothing.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	path := w.file.Name()
	err := errors.Join(ignoreMissing(os.Remove(path)), w.file.Close()) // in this order: the lock ends with the file
	w.file = nil
	if err != nil {
		return fmt.Errorf("discard %s: %w", path, err)
	}
	return nil
}

// Put adds small content to the store and returns its digest.
func (s *Store) Put(data []byte) (sha256hex string, err error) {
	w, err := s.Create()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	sha256hex, _, err = w.Commit()
	return sha256hex, err
}

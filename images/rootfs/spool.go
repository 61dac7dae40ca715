package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Spool keeps the contents of trees in one unnamed temporary file, so that memory does not grow
// with the driver's size and nothing is left when the process is killed. Several trees may share
// it, also from several goroutines.
type Spool struct {
	mu   sync.Mutex
	f    *os.File
	end  int64
	left budget
}

// section is a stretch of the spool, or small content in memory.
type section struct {
	spool     *Spool
	off, size int64
}

// NewSpool opens a spool in a directory with room for the unpacked driver (about 1 GiB).
func NewSpool(dir string) (*Spool, error) {
	f, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return nil, fmt.Errorf("open a spool file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink the spool file: %w", err), f.Close())
	}
	return &Spool{f: f, left: newBudget()}, nil
}

// Close frees the space. Trees on this spool can no longer be read.
func (s *Spool) Close() error { return s.f.Close() }

// take counts what an entry needs against the bounds of the spool.
func (s *Spool) take(entries, text, content int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left.take(entries, text, content)
}

func (s *Spool) write(r io.Reader, size int64) (*section, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: negative size %d", ErrFormat, size)
	}
	if err := s.take(0, 0, size); err != nil {
		return nil, err
	}
	s.mu.Lock()
	off := s.end
	s.end += size
	s.mu.Unlock()
	n, err := io.Copy(io.NewOffsetWriter(s.f, off), io.LimitReader(r, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %w: %d of %d bytes", ErrFormat, err, n, size)
	}
	if err != nil {
		return nil, err
	}
	return &section{spool: s, off: off, size: size}, nil
}

func (c *section) open() *io.SectionReader {
	if c == nil {
		return io.NewSectionReader(bytes.NewReader(nil), 0, 0)
	}
	return io.NewSectionReader(c.spool.f, c.off, c.size)
}

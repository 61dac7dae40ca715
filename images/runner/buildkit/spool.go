package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
)

// spool opens layers for reading at any offset: files directly, others from a temporary copy. It makes one
// copy for all steps and daemons, and removes it when the runner is closed.
type spool struct {
	dir string

	mu     sync.Mutex
	copies map[digest.Digest]*spooled
}

// spooled is one copy. The file has no name, so nothing is left of it even after a crash.
type spooled struct {
	once sync.Once
	file *os.File
	err  error
}

func (s *spool) open(ctx context.Context, dgst digest.Digest, l v1.Layer) (readerAtCloser, error) {
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	if r, ok := rc.(readerAtCloser); ok {
		return r, nil
	}
	c := s.copyOf(dgst)
	c.once.Do(func() { c.file, c.err = s.copy(ctx, dgst, rc) })
	if err := rc.Close(); err != nil && c.err == nil {
		return nil, err
	}
	if c.err != nil {
		s.forget(dgst, c) // the next attempt may succeed, or have a live context
		return nil, c.err
	}
	return nopCloser{c.file}, nil
}

func (s *spool) copyOf(dgst digest.Digest) *spooled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies == nil {
		s.copies = map[digest.Digest]*spooled{}
	}
	c := s.copies[dgst]
	if c == nil {
		c = &spooled{}
		s.copies[dgst] = c
	}
	return c
}

func (s *spool) forget(dgst digest.Digest, c *spooled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies[dgst] == c {
		delete(s.copies, dgst)
	}
}

// copy writes a layer to a file and checks its digest, because a daemon's error for a wrong digest explains
// nothing.
func (s *spool) copy(ctx context.Context, dgst digest.Digest, from io.Reader) (_ *os.File, err error) {
	f, err := os.CreateTemp(s.dir, "driver-layer-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	v := dgst.Verifier()
	if _, err := io.Copy(io.MultiWriter(f, v), &cancelled{ctx, from}); err != nil {
		return nil, fmt.Errorf("copy it to %s: %w", f.Name(), err)
	}
	if !v.Verified() {
		return nil, errors.New("its bytes do not have this digest: what is kept of it is damaged; fetch it again")
	}
	return f, nil
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, c := range s.copies {
		if c.file != nil {
			err = errors.Join(err, c.file.Close())
		}
	}
	s.copies = nil
	return err
}

// cancelled is a reader that ends with its context. It exists as long as one copy.
type cancelled struct {
	ctx  context.Context //nolint:containedctx // of one io.Copy, which takes no context
	from io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.from.Read(p)
}

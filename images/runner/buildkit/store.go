package buildkit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// store serves the blobs of one root to a daemon, through the daemon's session with this process, and nothing
// else of this machine. It is a read-only containerd content store.
type store struct {
	root   *root
	spool  *spool
	notify func(string) // called when a layer is being sent

	mu   sync.Mutex
	told map[digest.Digest]bool
	err  error // our first failure; the daemon returns only a text for it
}

func (s *store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

func (s *store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Info implements content.InfoProvider.
func (s *store) Info(_ context.Context, dgst digest.Digest) (content.Info, error) {
	if b, ok := s.root.small[dgst]; ok {
		return content.Info{Digest: dgst, Size: int64(len(b))}, nil
	}
	if size, ok := s.root.sizes[dgst]; ok {
		return content.Info{Digest: dgst, Size: size}, nil
	}
	return content.Info{}, fmt.Errorf("blob %s of the step's root: %w", dgst, errdefs.ErrNotFound)
}

// ReaderAt implements content.Provider.
func (s *store) ReaderAt(ctx context.Context, desc ocispecs.Descriptor) (content.ReaderAt, error) {
	if b, ok := s.root.small[desc.Digest]; ok {
		return &blob{nopCloser{bytes.NewReader(b)}, int64(len(b))}, nil
	}
	l, ok := s.root.layers[desc.Digest]
	if !ok {
		return nil, fmt.Errorf("blob %s of the step's root: %w", desc.Digest, errdefs.ErrNotFound)
	}
	size := s.root.sizes[desc.Digest]
	s.announce(desc.Digest, size)
	r, err := s.spool.open(ctx, desc.Digest, l)
	if err != nil {
		return nil, s.fail(fmt.Errorf("send layer %s: %w", desc.Digest, err))
	}
	return &blob{r, size}, nil
}

// announce reports, once, that a layer is being sent: the first step on a remote daemon may take minutes
// before its command runs.
func (s *store) announce(dgst digest.Digest, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told[dgst] {
		s.told[dgst] = true
		s.notify(fmt.Sprintf("sending layer %s, %.1f MB", dgst, float64(size)/1e6))
	}
}

// Update, Walk, Delete, Status, ListStatuses, Abort and Writer complete content.Store; daemons do not need
// them.

// Update refuses.
func (s *store) Update(context.Context, content.Info, ...string) (content.Info, error) {
	return content.Info{}, errReadOnly()
}

// Walk refuses.
func (s *store) Walk(context.Context, content.WalkFunc, ...string) error { return errReadOnly() }

// Delete refuses.
func (s *store) Delete(context.Context, digest.Digest) error { return errReadOnly() }

// Status refuses.
func (s *store) Status(context.Context, string) (content.Status, error) {
	return content.Status{}, errReadOnly()
}

// ListStatuses refuses.
func (s *store) ListStatuses(context.Context, ...string) ([]content.Status, error) {
	return nil, errReadOnly()
}

// Abort refuses.
func (s *store) Abort(context.Context, string) error { return errReadOnly() }

// Writer refuses.
func (s *store) Writer(context.Context, ...content.WriterOpt) (content.Writer, error) {
	return nil, errReadOnly()
}

func errReadOnly() error {
	return fmt.Errorf("the layers of a step are read only: %w", errdefs.ErrPermissionDenied)
}

// readerAtCloser is a blob that can be read at any offset.
type readerAtCloser interface {
	io.ReaderAt
	io.Closer
}

type nopCloser struct{ io.ReaderAt }

func (nopCloser) Close() error { return nil }

// blob is a content.ReaderAt.
type blob struct {
	readerAtCloser
	size int64
}

// Size returns the manifest's size, in bytes. For the daemon a shorter file ends too early, which it reports.
func (b *blob) Size() int64 { return b.size }

package buildkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// store serves the blobs of one root to a daemon, through the daemon's session with this process, and nothing
// else of this machine. It is a read-only containerd content store.
type store struct {
	root   *root
	work   string       // folder for temporary copies of layers that are not files
	notify func(string) // called when a layer is being sent

	mu   sync.Mutex
	told map[digest.Digest]bool
	err  error // our first failure; the daemon returns only a text for it
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
	l, ok := s.root.layers[dgst]
	if !ok {
		return content.Info{}, fmt.Errorf("blob %s of the step's root: %w", dgst, errdefs.ErrNotFound)
	}
	size, err := l.Size()
	return content.Info{Digest: dgst, Size: size}, err
}

// ReaderAt implements content.Provider.
func (s *store) ReaderAt(ctx context.Context, desc ocispecs.Descriptor) (content.ReaderAt, error) {
	info, err := s.Info(ctx, desc.Digest)
	if err != nil {
		return nil, err
	}
	if b, ok := s.root.small[desc.Digest]; ok {
		return &blob{nopCloser{bytes.NewReader(b)}, info.Size}, nil
	}
	s.mu.Lock() // one copy at a time
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = map[digest.Digest]bool{}
	}
	if !s.told[desc.Digest] { // the first step on a remote daemon may take minutes before its command runs
		s.told[desc.Digest] = true
		s.notify(fmt.Sprintf("sending layer %s, %.1f MB", desc.Digest, float64(info.Size)/1e6))
	}
	r, err := s.open(ctx, desc.Digest, s.root.layers[desc.Digest])
	if err != nil {
		err = fmt.Errorf("send layer %s: %w", desc.Digest, err)
		if s.err == nil {
			s.err = err
		}
		return nil, err
	}
	return &blob{r, info.Size}, nil
}

// open opens a layer for reading at any offset: a file directly, another from a temporary copy.
func (s *store) open(ctx context.Context, dgst digest.Digest, l v1.Layer) (_ readerAtCloser, err error) {
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	if r, ok := rc.(readerAtCloser); ok {
		return r, nil
	}
	defer func() { err = errors.Join(err, rc.Close()) }()
	f, err := os.CreateTemp(s.work, "driver-layer-*")
	if err != nil {
		return nil, err
	}
	// Without a name nothing is left of the copy even after a crash. A daemon's error for a wrong digest explains
	// nothing, so the digest is compared here.
	v := dgst.Verifier()
	if err = os.Remove(f.Name()); err == nil {
		_, err = io.Copy(io.MultiWriter(f, v), &cancelled{ctx, rc})
	}
	if err == nil && !v.Verified() {
		err = errors.New("its bytes do not have this digest: what is kept of it is damaged; fetch it again")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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

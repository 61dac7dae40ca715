package buildkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/rootfs"
)

// root is the root of a step in BuildKit's form: an image manifest and its config. They depend only
// on the layers' digests and the architecture, so that the same layers have the same digest
// everywhere and hit a daemon's cache.
type root struct {
	platform ocispecs.Platform
	manifest digest.Digest
	// layers, manifest and config, by the digest of the compressed bytes
	blobs map[digest.Digest]v1.Layer
}

func newRoot(arch string, layers []v1.Layer) (*root, error) {
	r := &root{
		platform: ocispecs.Platform{OS: "linux", Architecture: arch},
		blobs:    map[digest.Digest]v1.Layer{},
	}
	var adds []mutate.Addendum
	for i, l := range layers {
		mt, err := layer.OCIMediaType(l) // whatever made the layer
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d of the root: %w", i+1, len(layers), err)
		}
		sum, err := l.Digest()
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: l, MediaType: mt})
		r.blobs[digest.Digest(sum.String())] = l
	}
	img, err := mutate.ConfigFile(
		mutate.ConfigMediaType(
			mutate.MediaType(empty.Image, types.OCIManifestSchema1),
			types.OCIConfigJSON,
		),
		&v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}},
	)
	if err != nil {
		return nil, err
	}
	img, err = mutate.Append(img, adds...)
	if err != nil {
		return nil, err
	}
	for _, part := range []func() ([]byte, error){img.RawConfigFile, img.RawManifest} {
		b, err := part()
		if err != nil {
			return nil, err
		}
		r.manifest = digest.FromBytes(b)
		r.blobs[r.manifest] = static.NewLayer(b, types.OCIManifestSchema1)
	}
	return r, nil
}

// store serves the blobs of one root to a daemon, through the daemon's session with this process,
// and nothing else of this machine. It is a read-only containerd content store.
type store struct {
	readOnly

	root   *root
	work   string       // folder for temporary copies of layers that are not files
	notify func(string) // called when a layer is being sent

	mu        sync.Mutex
	announced []digest.Digest
	err       error // our first failure; the daemon returns only a text for it
}

func (s *store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Info implements content.InfoProvider.
func (s *store) Info(_ context.Context, dgst digest.Digest) (content.Info, error) {
	l, ok := s.root.blobs[dgst]
	if !ok {
		return content.Info{}, fmt.Errorf(
			"blob %s of the step's root: %w",
			dgst,
			errdefs.ErrNotFound,
		)
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
	l := s.root.blobs[desc.Digest]
	kind, _ := l.MediaType() // newRoot has asked
	s.mu.Lock()              // one copy at a time
	defer s.mu.Unlock()
	// the first step on a remote daemon may take minutes before its command runs
	if kind.IsLayer() && !slices.Contains(s.announced, desc.Digest) {
		s.announced = append(s.announced, desc.Digest)
		s.notify(fmt.Sprintf("sending layer %s, %.1f MB", desc.Digest, float64(info.Size)/1e6))
	}
	f, err := s.open(ctx, l)
	if err != nil {
		err = fmt.Errorf("send layer %s: %w", desc.Digest, err)
		s.err = cmp.Or(s.err, err)
		return nil, err
	}
	return blob{f, f, info.Size}, nil
}

// open opens a layer for reading at any offset: a file directly, another from a temporary copy
// without a name, of which nothing is left even after a crash.
func (s *store) open(ctx context.Context, l v1.Layer) (_ *os.File, err error) {
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	if f, ok := rc.(*os.File); ok {
		return f, nil
	}
	defer func() { err = errors.Join(err, rc.Close()) }()
	f, err := os.CreateTemp(s.work, "driver-layer-*")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, rootfs.Cancellable(ctx, rc))
	err = errors.Join(err, os.Remove(f.Name()))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// blob is a content.ReaderAt. Its size is the manifest's; for the daemon a shorter file ends too
// early, which it reports.
type blob struct {
	io.ReaderAt
	io.Closer

	size int64
}

func (b blob) Size() int64 { return b.size }

// readOnly completes a content.Store; daemons do not need its methods.
type readOnly struct{}

var errReadOnly = fmt.Errorf("the layers of a step are read only: %w", errdefs.ErrPermissionDenied)

func (readOnly) Update(context.Context, content.Info, ...string) (content.Info, error) {
	return content.Info{}, errReadOnly
}
func (readOnly) Walk(context.Context, content.WalkFunc, ...string) error { return errReadOnly }
func (readOnly) Delete(context.Context, digest.Digest) error             { return errReadOnly }
func (readOnly) Abort(context.Context, string) error                     { return errReadOnly }
func (readOnly) Status(context.Context, string) (s content.Status, err error) {
	return s, errReadOnly
}
func (readOnly) ListStatuses(context.Context, ...string) ([]content.Status, error) {
	return nil, errReadOnly
}
func (readOnly) Writer(context.Context, ...content.WriterOpt) (content.Writer, error) {
	return nil, errReadOnly
}

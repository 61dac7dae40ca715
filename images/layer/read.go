package layer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Flatten reads all layers of an image into one tree; keep as in rootfs.Tree.Apply.
func Flatten(
	ctx context.Context,
	img v1.Image,
	spool *rootfs.Spool,
	keep func(string) bool,
	step *progress.Step,
) (*rootfs.Tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the layers: %w", err)
	}
	tree := rootfs.New(spool, nil)
	names := oci.LayerNames(img)
	for i, l := range layers {
		digest, err := l.Digest()
		if err == nil {
			err = Apply(ctx, tree, l, keep, step, names[digest])
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return tree, nil
}

// Apply lays one layer over a tree. name is for progress.
func Apply(
	ctx context.Context,
	tree *rootfs.Tree,
	l v1.Layer,
	keep func(string) bool,
	step *progress.Step,
	name string,
) error {
	return read(ctx, l, step, name, func(r io.Reader) error { return tree.Apply(ctx, r, keep) })
}

// read gives the content of a layer to f, and reads it to its end: only then has its digest been
// checked.
func read(
	ctx context.Context,
	l v1.Layer,
	step *progress.Step,
	name string,
	f func(io.Reader) error,
) (err error) {
	r, err := Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buffered := bufio.NewReaderSize(io.TeeReader(r, step.Meter(ctx, name, 0)), 256<<10)
	if err := f(buffered); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered)
	return err
}

// Bounds of one layer: it may unpack to maxRatio times its size, or to maxSmall bytes if that is
// more. Layers of programs unpack to 2 to 5 times their size; gzip reaches 1,032 and zstd 30,000
// with zeros.
const (
	maxRatio = 200
	maxSmall = 256 << 20
)

// Open returns the unpacked content of a layer. It ends with rootfs.ErrTooLarge beyond the bounds,
// and with oci.ErrDiffID if it is not what the image's configuration says.
func Open(l v1.Layer) (io.ReadCloser, error) {
	size, err := l.Size()
	if err != nil {
		return nil, err
	}
	r, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	diffID, err := l.DiffID()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &bounded{r, max(maxSmall, size*maxRatio), size, diffID, sha256.New()}, nil
}

// bounded is the content of a layer of size bytes.
type bounded struct {
	io.ReadCloser
	left, size int64
	diffID     v1.Hash
	sum        hash.Hash
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if wrong := oci.CheckDiffID(b.sum, b.diffID); wrong != nil {
			return n, wrong
		}
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf(
			"%w: a layer of %d bytes unpacks to more than %d times as much",
			rootfs.ErrTooLarge,
			b.size,
			maxRatio,
		)
	}
	return n, err
}

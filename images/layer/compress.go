package layer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
)

func mediaType(c recipe.Compression) types.MediaType {
	if c == recipe.Zstd {
		return types.OCILayerZStd
	}
	return types.OCILayer
}

// gzipBlock and zstdWorkers are constants, not settings: the compressed bytes depend on the block
// size, and must not depend on the machine. The number of goroutines that work on the blocks does
// not change them.
const (
	gzipBlock   = 1 << 20
	zstdWorkers = 2
)

// newCompressor compresses to w on several cores. Its output is a function of its input alone.
func newCompressor(c recipe.Compression, w io.Writer, cores int) (io.WriteCloser, error) {
	if c == recipe.Zstd {
		return zstd.NewWriter(
			w,
			zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
			zstd.WithEncoderConcurrency(zstdWorkers),
			zstd.WithWindowSize(4<<20),
			zstd.WithLowerEncoderMem(true),
		)
	}
	z, err := pgzip.NewWriterLevel(w, pgzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	return z, z.SetConcurrency(gzipBlock, max(2, 2*cores))
}

// compress writes a tar stream of about total bytes into the store. Tar, both digests and the
// compressor run at the same time.
func (c Cache) compress(
	ctx context.Context,
	with recipe.Compression,
	total int64,
	step *progress.Step,
	content func(io.Writer) error,
) (rec Record, err error) {
	blob, err := c.Store.Create()
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	z, err := newCompressor(with, blob, runtime.GOMAXPROCS(0))
	if err != nil {
		return rec, err
	}
	diff := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(step.Meter(ctx, "compress", total), diff, z), 1<<20)
	if err := content(out); err != nil {
		return rec, errors.Join(err, z.Close())
	}
	if err := errors.Join(out.Flush(), z.Close()); err != nil {
		return rec, fmt.Errorf("compress the layer: %w", err)
	}
	sum, size, err := blob.Commit()
	return Record{
		Digest: sha256Hash(
			sum,
		), DiffID: sha256Hash(hex.EncodeToString(diff.Sum(nil))), Size: size, MediaType: mediaType(with),
	}, err
}

func sha256Hash(hex string) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: hex} }

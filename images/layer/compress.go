package layer

import (
	"io"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"

	"github.com/driver-container/driver-container/images/recipe"
)

func mediaType(c recipe.Compression) types.MediaType {
	if c == recipe.Zstd {
		return types.OCILayerZStd
	}
	return types.OCILayer
}

// gzipBlock and zstdWorkers are constants, not settings: the compressed bytes depend on the block size, and
// must not depend on the machine. The number of goroutines that work on the blocks does not change them.
const (
	gzipBlock   = 1 << 20
	zstdWorkers = 2
)

// newCompressor compresses to w on several cores. Its output is a function of its input alone.
func newCompressor(c recipe.Compression, w io.Writer, cores int) (io.WriteCloser, error) {
	if c == recipe.Zstd {
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(zstdWorkers),
			zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(true))
	}
	z, err := pgzip.NewWriterLevel(w, pgzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	return z, z.SetConcurrency(gzipBlock, max(2, 2*cores))
}

package images

import (
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"
)

// Compression of the layers that we build. gzip is the default: container runtimes older than containerd 1.5 and Docker 23
// cannot read zstd.
type Compression string

// The compressions there are.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// ParseCompression reads the value of --compression.
func ParseCompression(s string) (Compression, error) {
	switch c := Compression(strings.ToLower(s)); c {
	case Gzip, Zstd:
		return c, nil
	default:
		return "", fmt.Errorf("compression %q is not known: use gzip or zstd", s)
	}
}

func (c Compression) mediaType() types.MediaType {
	if c == Zstd {
		return types.OCILayerZStd
	}
	return types.OCILayer
}

// gzipBlock and zstdWorkers are constants, not settings: the compressed bytes depend on the block size, and must not depend
// on the machine. The number of goroutines that work on the blocks does not change them.
const (
	gzipBlock   = 1 << 20
	zstdWorkers = 2
)

// writer compresses to w on several cores. Its output is a function of its input alone.
func (c Compression) writer(w io.Writer, cores int) (io.WriteCloser, error) {
	if c == Zstd {
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(zstdWorkers),
			zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(true))
	}
	z, err := pgzip.NewWriterLevel(w, pgzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	return z, z.SetConcurrency(gzipBlock, max(2, 2*cores))
}

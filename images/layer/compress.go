package layer

import (
	"bufio"
	"io"
	"runtime"
	"sync"

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

// Compressors keeps compressors that are not in use. Each has some megabytes of buffers, which takes longer
// to make than a layer with one small file. The zero value is empty and ready; nil keeps none.
type Compressors struct {
	gzip, zstd, buffers sync.Pool
}

// buffer returns a writer to w that gives it a megabyte at a time.
func (p *Compressors) buffer(w io.Writer) *bufio.Writer {
	if p != nil {
		if b, ok := p.buffers.Get().(*bufio.Writer); ok {
			b.Reset(w)
			return b
		}
	}
	return bufio.NewWriterSize(w, 1<<20)
}

func (p *Compressors) pool(c recipe.Compression) *sync.Pool {
	if c == recipe.Zstd {
		return &p.zstd
	}
	return &p.gzip
}

// get returns a compressor to w, which compresses on several cores.
func (p *Compressors) get(c recipe.Compression, w io.Writer) (compressor, error) {
	if p != nil {
		if z, ok := p.pool(c).Get().(compressor); ok {
			z.Reset(w)
			return z, setBlocks(z, runtime.GOMAXPROCS(0))
		}
	}
	return newCompressor(c, w, runtime.GOMAXPROCS(0))
}

// put takes a compressor that was closed, and a buffer that was flushed.
func (p *Compressors) put(c recipe.Compression, z compressor, b *bufio.Writer) {
	if p != nil {
		z.Reset(nil) // they keep no file open
		b.Reset(nil)
		p.pool(c).Put(z)
		p.buffers.Put(b)
	}
}

type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// newCompressor compresses to w on several cores. Its output is a function of its input alone.
func newCompressor(c recipe.Compression, w io.Writer, cores int) (compressor, error) {
	if c == recipe.Zstd {
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(zstdWorkers),
			zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(true))
	}
	z, err := pgzip.NewWriterLevel(w, pgzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	return z, setBlocks(z, cores)
}

// setBlocks sets how gzip divides its input, which a reset of the compressor forgets.
func setBlocks(z compressor, cores int) error {
	if z, ok := z.(*pgzip.Writer); ok {
		return z.SetConcurrency(gzipBlock, max(2, 2*cores))
	}
	return nil
}

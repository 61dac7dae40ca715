package runfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
)

// Magic numbers of the three compressions that payloads have had. The magic decides, not the driver's
// version: xz changed to zstd with 530.30.02, but repackaged variants differ.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// decompress returns a reader of the decompressed payload; close it. It returns errors
// of src unchanged; every error of a decoder wraps ErrPayload or ErrTooLarge.
//
// The choice of the xz decoder was measured with nothing else running on two cores: a tar of 320,000,000
// bytes of programs and libraries, xz -6 --check=none, 67 MB, one block or several. xz(1) takes 3.5 s,
// mikelolasagasti/xz 5.3 s in 15 MiB, ulikunitz/xz 7.2 s in 24 to 52 MiB. Speed is one reason for the former.
// The other is that it refuses a dictionary above the caller's bound before it allocates it, where the latter
// allocates the up to 4 GiB that a hostile block header names. Both read archives without integrity check and
// those of several blocks.
func (r *Reader) decompress(src io.Reader) (io.ReadCloser, error) {
	window := r.limits.Window
	tagged := &tagReader{r: src}
	in := bufio.NewReaderSize(tagged, 128<<10)
	magic, err := in.Peek(len(xzMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, tagged.classify(err)
	}
	var d io.ReadCloser
	switch {
	case bytes.HasPrefix(magic, xzMagic):
		if r.XZ != nil {
			d, err = r.XZ(in, window)
			break
		}
		z, zerr := xz.NewReader(in, window)
		d, err = io.NopCloser(z), zerr
	case bytes.HasPrefix(magic, zstdMagic):
		z, zerr := zstd.NewReader(in, zstd.WithDecoderMaxWindow(uint64(window)), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
		if zerr == nil {
			d = z.IOReadCloser()
		}
		err = zerr
	case bytes.HasPrefix(magic, gzipMagic):
		d, err = gzip.NewReader(in)
	default:
		return nil, fmt.Errorf("it begins with % x, which is neither gzip, xz nor zstd: %w", magic, ErrPayload)
	}
	if err != nil {
		return nil, tagged.classify(err)
	}
	return &classifier{ReadCloser: d, src: tagged}, nil
}

// tagReader remembers the error of the source, to distinguish it from the decoder's own errors.
type tagReader struct {
	r   io.Reader
	err error
}

func (t *tagReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

func (t *tagReader) classify(err error) error {
	switch {
	case t.err != nil:
		return t.err
	case errors.Is(err, xz.ErrMemlimit), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("decompress: %w: %w", err, ErrTooLarge)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("decompress: the compressed data is cut off: %w", ErrPayload)
	}
	return fmt.Errorf("decompress: %w: %w", err, ErrPayload)
}

// classifier passes a decoder's errors through classify.
type classifier struct {
	io.ReadCloser
	src *tagReader
}

func (c *classifier) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // only the bare io.EOF is an end; a wrapped one is a failure
		err = c.src.classify(err)
	}
	return n, err
}

// unpack decompresses and untars. A goroutine decompresses in parallel; it has ended when unpack returns. src
// may then have unread bytes.
func (r *Reader) unpack(ctx context.Context, src io.Reader, add AddFunc) error {
	l := r.limits
	d, err := r.decompress(src)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	ahead := newReadAhead(ctx, d)
	capped := &capReader{r: ahead, left: l.Content, limit: l.Content}
	err = untar(capped, l, add)
	if err == nil {
		// After the end of the tar comes padding, which must be well-formed compressed data too.
		_, err = io.Copy(io.Discard, capped)
	}
	ahead.stop()
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	return nil
}

// capReader returns an error once its source has delivered more than limit bytes.
type capReader struct {
	r           io.Reader
	left, limit int64
}

func (c *capReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.left -= int64(n)
	if c.left < 0 {
		return 0, fmt.Errorf("it decompresses to more than %d bytes: %w", c.limit, ErrTooLarge)
	}
	return n, err
}

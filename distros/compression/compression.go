// Package compression tells by the first bytes of a stream how it is compressed, and decompresses
// it within a bound of memory. Whatever names a compression can be wrong: the media type of a
// layer, the ending of a file.
package compression

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
)

// The compressions.
const (
	Gzip  = "gzip"
	XZ    = "xz"
	Zstd  = "zstd"
	Bzip2 = "bzip2"
)

// MaxWindow bounds the memory, in bytes, that the decoder of a stream may allocate for its history.
// The strongest usual levels need it: zstd --ultra -22 or --long=27; xz -9 half.
const MaxWindow = 128 << 20

// HeadSize is how many bytes of a stream [Of] needs.
const HeadSize = 6

// The faults of a stream.
var (
	ErrDamaged  = failure.New(failure.Content, "damaged compressed data")
	ErrTooLarge = failure.New(failure.Content, "it needs more memory to decompress than is allowed")
)

// Of returns the compression of the stream that begins with these bytes; "" if it is none of the
// constants.
func Of(head []byte) string {
	for kind, magic := range map[string]string{Gzip: "\x1f\x8b", XZ: "\xfd7zXZ\x00", Zstd: "\x28\xb5\x2f\xfd", Bzip2: "BZh"} {
		if strings.HasPrefix(string(head), magic) {
			return kind
		}
	}
	return ""
}

// Detect returns the compression of a stream, of which it reads no byte.
func Detect(r *bufio.Reader) (string, error) {
	head, err := r.Peek(HeadSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return Of(head), nil
}

// NewReader returns the content of a stream of a compression; "" is none. A stream that needs more
// than MaxWindow is ErrTooLarge. Another fault of the stream is ErrDamaged. Errors of r stay as
// they are. Close frees memory; it does not close r.
func NewReader(r io.Reader, compression string) (io.ReadCloser, error) {
	in := &bounded.Source{Reader: r}
	var out io.ReadCloser
	var err error
	switch compression {
	case "":
		return io.NopCloser(r), nil
	case Gzip:
		out, err = gzip.NewReader(in)
	case XZ:
		// checks a stream's index with a running hash, and a dictionary before it allocates it
		var z *xz.Reader
		z, err = xz.NewReader(in, MaxWindow)
		out = io.NopCloser(z)
	case Zstd:
		var z *zstd.Decoder
		z, err = zstd.NewReader(
			in,
			zstd.WithDecoderMaxWindow(MaxWindow),
			zstd.WithDecoderConcurrency(2),
		)
		if err != nil {
			return nil, classify(in, err)
		}
		out = z.IOReadCloser()
	case Bzip2:
		out = io.NopCloser(bzip2.NewReader(in))
	default:
		return nil, failure.Errorf(
			failure.Content,
			"compression %.40q is not supported: want gzip, xz, zstd, bzip2 or none",
			compression,
		)
	}
	if err != nil {
		return nil, classify(in, err)
	}
	return &reader{out, in}, nil
}

// Stream says how a stream from elsewhere is read.
type Stream struct {
	XZ     OpenXZ // opens an .xz stream; nil: in Go
	Limit  int64  // bytes of the content
	Format error  // what damage is, and content of more bytes
}

// Open returns the content of a stream of a compression. Errors of r stay as they are. Close frees
// memory; it does not close r.
func (s Stream) Open(r io.Reader, compression string) (io.ReadCloser, error) {
	source := &bounded.Source{Reader: r}
	open := func(in io.Reader) (io.ReadCloser, error) { return NewReader(in, compression) }
	if compression == XZ && s.XZ != nil {
		open = s.XZ
	}
	in, err := open(source)
	if err != nil {
		return nil, s.mark(source, err)
	}
	tooMuch := fmt.Errorf("%w: it unpacks to more than %d bytes", s.Format, s.Limit)
	limited := &bounded.Limited{Reader: in, Left: s.Limit, Err: tooMuch}
	mark := func(err error) error { return s.mark(source, err) }
	return &content{limited, in, mark}, nil
}

// mark tells an error of the stream's source, which decoders may replace by their own, from damage.
// At the limit a decoder may still read the source, so its error is not looked at then.
func (s Stream) mark(source *bounded.Source, err error) error {
	if errors.Is(err, s.Format) {
		return err
	}
	if source.Err != nil {
		return source.Err
	}
	return fmt.Errorf("%w: %w", s.Format, err)
}

// content is the content of a Stream.
type content struct {
	*bounded.Limited
	io.Closer
	mark func(error) error
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.Limited.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.mark(err)
	}
	return n, err
}

// Unpack passes the content of a stream, in whatever compression, to read. More bytes than limit are
// an error.
func Unpack(stream io.Reader, limit int64, read func(io.Reader) error) error {
	in := bufio.NewReaderSize(stream, 128<<10)
	kind, err := Detect(in)
	if err != nil {
		return err
	}
	out, err := NewReader(in, kind)
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	defer out.Close() //nolint:errcheck // read only
	tooMuch := fmt.Errorf("it unpacks to more bytes than %d", limit)
	return read(&bounded.Limited{Reader: out, Left: limit, Err: tooMuch})
}

// classify tells an error of the stream's source, which decoders may replace by their own, from
// damage.
func classify(source *bounded.Source, err error) error {
	switch {
	case source.Err != nil:
		return source.Err
	case errors.Is(err, xz.ErrMemlimit),
		errors.Is(err, zstd.ErrWindowSizeExceeded),
		errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, io.EOF): // not the end of the content
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// reader is the content of a stream.
type reader struct {
	io.ReadCloser
	source *bounded.Source
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // only the bare io.EOF is an end; a wrapped one is a failure
		err = classify(r.source, err)
	}
	return n, err
}

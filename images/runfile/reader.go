package runfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/driver-container/driver-container/distros/unxz"
)

// Reader reads one archive from a stream, once.
type Reader struct {
	header Header
	limits Limits
	src    *bufio.Reader
	head   []byte // lines 1 to TARGET_ARCH, already taken from src
	summed int    // offset in head at which CRC and MD5 begin
	used   bool

	XZ unxz.Open // decompresses an .xz payload; nil: in Go
}

// Sums has the digest and the size of the whole archive file.
type Sums struct {
	// SHA256 is in lower-case hexadecimal.
	SHA256 string
	// Size is in bytes.
	Size int64
}

// Open parses the head of the archive in r, under the default [Limits]. It reads a few kilobytes;
// [Reader.Extract] reads the rest. Errors wrap [ErrHeader] or the error of r.
func Open(r io.Reader) (*Reader, error) { return OpenLimited(r, Limits{}) }

// OpenLimited is Open with other limits.
func OpenLimited(r io.Reader, l Limits) (*Reader, error) {
	src := bufio.NewReaderSize(r, 64<<10)
	h, head, summed, err := parseHeader(src)
	if err != nil {
		return nil, fmt.Errorf("open .run archive: %w", err)
	}
	return &Reader{header: h, limits: l.withDefaults(), src: src, head: head, summed: summed}, nil
}

// Header returns the content of the archive's head.
func (r *Reader) Header() Header { return r.header }

// AddFunc takes one regular file of the payload. The name is relative, clean and slash-separated; mode has
// only permission bits (a set-uid bit comes only from the manifest). AddFunc must read what it needs of
// content before it returns; it need not read everything. Its error ends the extraction, and Extract returns
// it, wrapped.
type AddFunc func(name string, mode fs.FileMode, size int64, content io.Reader) error

// Extract unpacks the payload, calls add for each regular file in the archive's order, and returns the sums
// of the whole file. It checks directories but does not report them, because the manifest implies them. It
// can be called once.
//
// A wrong CRC or MD5 is a *[ChecksumError], also when the damage first appeared as an undecodable payload.
// Other bad content is [ErrPayload], [ErrUnsafe] or [ErrTooLarge]. Sums are valid whenever the whole file
// could be read, also with an error, and zero otherwise.
//
// Reading, hashing, decompressing and add run in parallel on bounded buffers: the memory is the
// decompressor's window and about 8 MiB. No goroutine outlives the call. When ctx ends, Extract returns its
// cause as soon as the current Read of the underlying reader returns.
func (r *Reader) Extract(ctx context.Context, add AddFunc) (Sums, error) {
	if r.used {
		return Sums{}, errors.New("extract .run archive: it was read already; open it again")
	}
	r.used = true
	sums, err := r.extract(ctx, add)
	if err != nil {
		return sums, fmt.Errorf("extract %s: %w", r.describe(), err)
	}
	return sums, nil
}

func (r *Reader) describe() string {
	return fmt.Sprintf("NVIDIA driver archive %s for %s", r.header.Version, r.header.TargetArch)
}

func (r *Reader) extract(parent context.Context, add AddFunc) (Sums, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	sum := newChecksums(r.head, r.summed)
	feed := newFeed(ctx, r.src, sum)
	payload := &skipper{src: feed, head: r.head, lines: r.header.Skip - 1, limit: r.limits.Stub}
	unpackErr := payload.skip()
	if unpackErr == nil {
		unpackErr = r.unpack(ctx, payload.rest(), add)
	}
	// A caller that stops here must not wait for the rest of a download.
	if err := stopNow(parent, unpackErr); err != nil {
		cancel(err)
		feed.wait()
		return Sums{}, err
	}
	// Otherwise the sums need the rest of the file, and they distinguish damage from malice.
	if _, err := io.Copy(io.Discard, feed); err != nil {
		cancel(err)
		feed.wait()
		return Sums{}, errors.Join(unpackErr, err)
	}
	feed.wait()
	return sum.verify(r.header, unpackErr)
}

// stopNow returns the error that ends an extraction at once: of the caller's context or the caller's
// callback.
func stopNow(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if add := (*addError)(nil); errors.As(err, &add) {
		return add
	}
	return nil
}

// addError marks an error of the caller's callback.
type addError struct {
	name string
	err  error
}

func (e *addError) Error() string { return fmt.Sprintf("take member %s: %v", e.name, e.err) }
func (e *addError) Unwrap() error { return e.err }

// skipper finds the payload. Like `tail -n +skip`, it counts newlines from the start of the file, through the
// rest of the stub and the binary decompressor.
type skipper struct {
	src   io.Reader
	head  []byte
	lines int   // newlines that precede the payload
	limit int64 // bytes that may precede it
	left  []byte
}

func (s *skipper) skip() error {
	missing := s.lines - bytes.Count(s.head, []byte{'\n'})
	seen := int64(len(s.head))
	buf := make([]byte, 32<<10)
	for missing > 0 {
		n, err := s.src.Read(buf)
		chunk := buf[:n]
		for missing > 0 {
			i := bytes.IndexByte(chunk, '\n')
			if i < 0 {
				seen += int64(len(chunk))
				chunk = nil
				break
			}
			seen += int64(i) + 1
			chunk = chunk[i+1:]
			missing--
		}
		switch {
		case seen > s.limit:
			return fmt.Errorf("the payload is not within the first %d bytes: %w", s.limit, ErrTooLarge)
		case missing == 0:
			s.left = chunk
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the file ends %d lines before its payload at line %d: %w", missing, s.lines+1, ErrPayload)
		case err != nil:
			return err
		}
	}
	return nil
}

// rest returns the payload; valid after skip.
func (s *skipper) rest() io.Reader { return io.MultiReader(bytes.NewReader(s.left), s.src) }

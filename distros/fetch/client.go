// Package fetch downloads files with a known sha256 or sha512 into a content-addressed store, which
// several processes may use at the same time. It verifies downloads before it publishes them,
// resumes interrupted ones (also in a later process) and retries with growing pauses. The store
// also has records: what is known under a key, such as the layer that some inputs gave.
//
// It does not know what it downloads: no archives, no package indexes, no signatures. It deletes
// finished content only in Prune and RemoveDamaged.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

// File names content: its address and its digest.
type File struct {
	URL    string `json:"url"`              // http, https or file
	SHA256 string `json:"sha256,omitempty"` // 64 lower-case hex digits; mandatory without SHA512
	// SHA512 has 128 lower-case hex digits, for content without a known SHA256. If both are set,
	// both must be right.
	SHA512 string `json:"sha512,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes; 0: unknown
	// Listed says that an index names the file. A server without it is behind the one that sent the
	// index, and is asked again.
	Listed bool `json:"-"`
}

// Progress reports how many bytes of how many are in the store; total is 0 when unknown. The
// goroutine that downloads calls it often, so it must be fast. The first call of a resumed download
// has the bytes of the earlier one.
type Progress func(done, total int64)

// Client downloads into a store. Store must be set; everything else has a default. It is safe for
// concurrent use.
type Client struct {
	Store *Store
	// HTTP is nil for a client with the system's proxies and certificates. Its Timeout is not used,
	// because large files take long.
	HTTP     *http.Client
	Offline  bool // never use the network; file URLs still work
	Attempts int  // attempts in a row without a new byte before the client gives up; 0: 5
	// pause before the second attempt, doubled for each further one; 0: 500ms
	Backoff time.Duration
	// Stall is the time without a byte after which the client ends a transfer and tries again; 0: 1
	// minute.
	Stall     time.Duration
	UserAgent string // "": driver-build
}

const (
	defaultAttempts = 5
	defaultBackoff  = 500 * time.Millisecond
	defaultStall    = time.Minute
	// Bytes of a file of unknown size; the largest driver archive is under 1 GiB.
	maxUnknownSize = 16 << 30
)

// Get returns the path of verified content in the store, and whether it was there before the call.
// It resumes an interrupted download of this or another process. Errors: *MismatchError for content
// with another digest or size; ErrUnreachable for a server that does not deliver; ErrOffline when
// the client is offline and the store lacks the content.
func (c *Client) Get(
	ctx context.Context,
	f File,
	p Progress,
) (path string, cached bool, err error) {
	u, err := parseURL(f.URL)
	if err != nil {
		return "", false, err
	}
	if err := f.check(); err != nil {
		return "", false, fmt.Errorf("download %s: %w", shown(u), err)
	}
	if p == nil {
		p = func(int64, int64) {}
	}
	switch {
	case c.have(f):
		cached = true
	case u.Scheme == "file":
		if err := c.copyLocal(ctx, u, f, p); err != nil {
			return "", false, fmt.Errorf("copy %s: %w", shown(u), err)
		}
	case c.Offline:
		return "", false, fmt.Errorf("%s (%s %s): %w", shown(u), kind(f.key()), f.key(), ErrOffline)
	default:
		cached, err = c.download(ctx, u, f, p)
		if err != nil {
			return "", false, fmt.Errorf("download %s: %w", shown(u), err)
		}
	}
	return c.Store.Path(f.key()), cached, nil
}

// have reports whether the store has the file. A blob of another size than the file's is damaged
// (truncated): it counts as missing, and the new download replaces it.
func (c *Client) have(f File) bool {
	size, ok := c.Store.size(f.key())
	return ok && (f.Size == 0 || size == f.Size)
}

// copyLocal copies a file of this machine into the store.
func (c *Client) copyLocal(ctx context.Context, u *url.URL, f File, progress Progress) (err error) {
	src, err := bounded.Open(u.Path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // opened for reading
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	if f.Size > 0 && fi.Size() != f.Size {
		return &MismatchError{
			URL:      shown(u),
			Want:     f.key(),
			Got:      "not read",
			WantSize: f.Size,
			GotSize:  fi.Size(),
		}
	}
	f.URL = shown(u)
	return c.Store.adopt(ctx, f, src, func(n int64) { progress(n, fi.Size()) })
}

// Adopt puts content from elsewhere into the store, under the digests of f, if it has them. The error is a
// *MismatchError if it does not, and nothing is stored then. f.URL is for messages.
func (s *Store) Adopt(ctx context.Context, f File, r io.Reader) error {
	err := f.check()
	if err != nil {
		return fmt.Errorf("store %s: %w", f.URL, err)
	}
	if s.Has(f.key()) && (f.SHA512 == "" || s.Has(f.SHA512)) {
		return nil
	}
	err = s.adopt(ctx, f, r, nil)
	if err != nil {
		return fmt.Errorf("store %s: %w", f.URL, err)
	}
	return nil
}

func (s *Store) adopt(ctx context.Context, f File, r io.Reader, progress func(int64)) (err error) {
	w, err := s.Create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.sums = newSums(f)
	if err := Copy(ctx, w, r, progress); err != nil {
		return err
	}
	if want, got := w.sums.compare(f); want != got || f.Size > 0 && f.Size != w.size {
		return &MismatchError{URL: f.URL, Want: want, Got: got, WantSize: f.Size, GotSize: w.size}
	}
	_, _, err = w.Commit()
	return err
}

// Copy copies until the end or until ctx ends, and calls progress, if there is one, with the number
// of bytes after each piece.
func Copy(ctx context.Context, w io.Writer, r io.Reader, progress func(int64)) error {
	buf := make([]byte, 256<<10)
	var done int64
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if done += int64(n); progress != nil {
				progress(done)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

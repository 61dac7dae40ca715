// Package fetch downloads files with a known sha256 or sha512 into a content-addressed store. It verifies
// downloads before it publishes them, resumes interrupted ones (also in a later process), retries with
// growing pauses, and is safe when several processes want the same file at the same time.
//
// It does not know what it downloads: no archives, no package indexes, no signatures. It never deletes
// finished content.
package fetch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// File names content: its address and its digest.
type File struct {
	URL    string `json:"url"`              // http, https or file
	SHA256 string `json:"sha256,omitempty"` // 64 lower-case hex digits; mandatory without SHA512
	// SHA512 has 128 lower-case hex digits, for content without a known SHA256. If both are set, both must be
	// right.
	SHA512 string `json:"sha512,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes; 0: unknown
}

// Progress reports how many bytes of how many are in the store; total is 0 when unknown. The goroutine that
// downloads calls it often, so it must be fast. The first call of a resumed download has the bytes of the
// earlier one.
type Progress func(done, total int64)

// Client downloads into a store. Store must be set; everything else has a default. It is safe for concurrent
// use.
type Client struct {
	Store *Store
	// HTTP is nil for a client with the system's proxies and certificates. Its Timeout is not used, because
	// large files take long.
	HTTP     *http.Client
	Offline  bool          // never use the network; file URLs still work
	Attempts int           // attempts in a row without a new byte before the client gives up; 0: 5
	Backoff  time.Duration // pause before the second attempt, doubled for each further one; 0: 500ms
	// Stall is the time without a byte after which the client ends a transfer and tries again; 0: 1 minute.
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

// Get returns the path of verified content in the store, and whether it was there before the call. It resumes
// an interrupted download of this or another process. Errors: *MismatchError for content with another digest
// or size; ErrUnreachable for a server that does not deliver; ErrOffline when the client is offline and the
// store lacks the content.
func (c *Client) Get(ctx context.Context, f File, p Progress) (path string, cached bool, err error) {
	u, err := parseURL(f.URL)
	if err != nil {
		return "", false, err
	}
	if err := f.check(); err != nil {
		return "", false, fmt.Errorf("download %s: %w", redactURL(u), err)
	}
	if p == nil {
		p = func(int64, int64) {}
	}
	if c.have(f) {
		return c.Store.Path(f.key()), true, nil
	}
	if u.Scheme == "file" {
		if err := c.copyLocal(ctx, u, f, p); err != nil {
			return "", false, fmt.Errorf("copy %s: %w", redactURL(u), err)
		}
		return c.Store.Path(f.key()), false, nil
	}
	if c.Offline {
		return "", false, fmt.Errorf("%s (%s %s): %w", redactURL(u), kind(f.key()), f.key(), ErrOffline)
	}
	cached, err = c.download(ctx, u, f, p)
	if err != nil {
		return "", false, fmt.Errorf("download %s: %w", redactURL(u), err)
	}
	return c.Store.Path(f.key()), cached, nil
}

// have reports whether the store has the file. A blob of another size than the file's is damaged (truncated):
// it counts as missing, and the new download replaces it.
func (c *Client) have(f File) bool {
	size, ok := c.Store.size(f.key())
	return ok && (f.Size == 0 || size == f.Size)
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("download: not a URL: %w", unwrapURLError(err)) // the text of url.Parse has the password
	}
	switch {
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && u.Path != "":
		return u, nil
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return u, nil
	}
	return nil, fmt.Errorf("download %s: want http://host/path, https://host/path or file:///path", redactURL(u))
}

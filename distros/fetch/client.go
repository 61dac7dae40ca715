// Package fetch downloads files whose sha256 or sha512 is known and keeps them in a content-addressed store. Downloads are
// verified before anybody sees them, resumed where they broke off (also by a later process), retried with growing
// pauses, and safe when several processes want the same file at once.
//
// It does not know what it downloads: no archives, no package indexes, no signatures. It never deletes finished content.
package fetch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// File names content: where it is said to be and what it must be.
type File struct {
	URL    string `json:"url"`              // http, https or file
	SHA256 string `json:"sha256,omitempty"` // 64 lower-case hex digits; mandatory without SHA512
	SHA512 string `json:"sha512,omitempty"` // 128 lower-case hex digits, for content of which no SHA256 is known; both: both must be right
	Size   int64  `json:"size,omitempty"`   // bytes; 0: unknown
}

// Progress is told how many bytes of how many are there; total is 0 when unknown. It is called from the goroutine that
// downloads, often, so it must be quick. The first call of a resumed download starts with what was there before.
type Progress func(done, total int64)

// Client downloads into a store. Store must be set, all else has defaults. Safe for concurrent use.
type Client struct {
	Store     *Store
	HTTP      *http.Client  // nil: a client with the system's proxies and certificates. Its Timeout is not used: large files take long
	Offline   bool          // never use the network; file URLs still work
	Attempts  int           // tries in a row without a new byte before giving up; 0: 5
	Backoff   time.Duration // pause before the second try, doubled for each further one; 0: 500ms
	Stall     time.Duration // a transfer that yields no byte for so long is broken off and tried again; 0: 1 minute
	UserAgent string        // "": driver-build
}

const (
	defaultAttempts = 5
	defaultBackoff  = 500 * time.Millisecond
	defaultStall    = time.Minute
	maxBackoff      = 30 * time.Second
	maxRetryAfter   = 2 * time.Minute
	maxUnknownSize  = 16 << 30 // bytes of a file whose size nobody told us; the largest driver archive is under 1 GiB
)

// Get returns the path of verified content in the store, and whether it was there before. It resumes a download that
// broke off earlier, here or in another process. Content of another digest or size is a *MismatchError; a server that
// does not deliver is ErrUnreachable; ErrOffline when the client is offline and the store does not have it.
func (c *Client) Get(ctx context.Context, f File, p Progress) (path string, cached bool, err error) {
	u, err := parseURL(f.URL)
	if err != nil {
		return "", false, err
	}
	if err := f.check(); err != nil {
		return "", false, fmt.Errorf("download %s: %w", display(u), err)
	}
	if p == nil {
		p = func(int64, int64) {}
	}
	if c.have(f) {
		return c.Store.Path(f.key()), true, nil
	}
	if u.Scheme == "file" {
		if err := c.copyLocal(ctx, u, f, p); err != nil {
			return "", false, fmt.Errorf("copy %s: %w", display(u), err)
		}
		return c.Store.Path(f.key()), false, nil
	}
	if c.Offline {
		return "", false, fmt.Errorf("%s (%s %s): %w", display(u), kind(f.key()), f.key(), ErrOffline)
	}
	cached, err = c.download(ctx, u, f, p)
	if err != nil {
		return "", false, fmt.Errorf("download %s: %w", display(u), err)
	}
	return c.Store.Path(f.key()), cached, nil
}

// have tells whether the store holds the file. A blob of another size than the file's is damaged (somebody truncated
// it): it counts as missing and the new download replaces it.
func (c *Client) have(f File) bool {
	size, ok := c.Store.size(f.key())
	return ok && (f.Size == 0 || size == f.Size)
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("download: not a URL: %w", bare(err)) // bare: the text of url.Parse repeats the password
	}
	switch {
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && u.Path != "":
		return u, nil
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return u, nil
	}
	return nil, fmt.Errorf("download %s: want http://host/path, https://host/path or file:///path", display(u))
}

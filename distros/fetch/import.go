package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Import downloads content with an unknown digest, of at most limit bytes, into the store and returns its
// sha256 and size: it serves to find out what to pin. Every attempt begins with the first byte, and nothing
// shows that the content is authentic. Errors are those of Get, and ErrTooLarge.
func (c *Client) Import(ctx context.Context, rawURL string, limit int64, p Progress) (sha256hex string, size int64, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return "", 0, err
	}
	if p == nil {
		p = func(int64, int64) {}
	}
	if u.Scheme == "file" {
		f, err := bounded.Open(u.Path)
		if err != nil {
			return "", 0, fmt.Errorf("read %s: %w", redactURL(u), err)
		}
		defer f.Close() //nolint:errcheck // opened for reading
		return c.importFrom(ctx, f, redactURL(u), 0, limit, p)
	}
	if c.Offline {
		return "", 0, fmt.Errorf("%s: %w", redactURL(u), ErrOffline)
	}
	err = c.retry(ctx, u, func(ctx context.Context) (_ bool, err error) {
		sha256hex, size, err = c.importOnce(ctx, u, limit, p)
		return false, err
	})
	if err != nil {
		return "", 0, fmt.Errorf("download %s: %w", redactURL(u), err)
	}
	return sha256hex, size, nil
}

// importOnce sends one request.
func (c *Client) importOnce(ctx context.Context, u *url.URL, limit int64, p Progress) (string, int64, error) {
	req, err := c.request(ctx, u)
	if err != nil {
		return "", 0, err
	}
	watch := newWatch(req, c.stall())
	defer watch.stop()
	resp, err := c.client().Do(watch.req)
	if err != nil {
		return "", 0, watch.explain(err)
	}
	defer resp.Body.Close() //nolint:errcheck // opened for reading
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", 0, statusError(resp, u)
	case resp.ContentLength > limit:
		return "", 0, tooLarge(redactURL(u), limit)
	case endless(resp):
		return "", 0, &localError{fmt.Errorf("%s: the server does not say where the file ends: a cut would look like the whole of it", redactURL(u))}
	}
	sum, size, err := c.importFrom(ctx, watch.reader(resp.Body), redactURL(u), max(resp.ContentLength, 0), limit, p)
	if err != nil {
		return "", 0, watch.explain(err)
	}
	return sum, size, nil
}

// importFrom writes the content of a reader into the store. total is the expected number of bytes, 0 when
// unknown.
func (c *Client) importFrom(ctx context.Context, r io.Reader, name string, total, limit int64, p Progress) (string, int64, error) {
	w, err := c.Store.Create()
	if err != nil {
		return "", 0, &localError{err}
	}
	defer w.Close() //nolint:errcheck // discards; after Commit a no-op
	if err := Copy(ctx, w, io.LimitReader(r, limit+1), func(n int64) { p(n, total) }); err != nil {
		return "", 0, err
	}
	if w.size > limit {
		return "", 0, tooLarge(name, limit)
	}
	sum, size, err := w.Commit()
	if err != nil {
		return "", 0, &localError{err}
	}
	return sum, size, nil
}

func tooLarge(name string, limit int64) error {
	return &localError{fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLarge, limit)}
}

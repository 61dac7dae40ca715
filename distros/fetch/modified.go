package fetch

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Modified returns when a file was last changed, without its content: the header Last-Modified of a server,
// or the time of a local file. The time is zero when the server does not state it. Errors are those of Get.
func (c *Client) Modified(ctx context.Context, rawURL string) (when time.Time, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return time.Time{}, err
	}
	if u.Scheme == "file" {
		fi, err := os.Stat(u.Path)
		if err != nil {
			return time.Time{}, fmt.Errorf("ask for the date of %s: %w", redactURL(u), err)
		}
		return fi.ModTime().UTC(), nil
	}
	if c.Offline {
		return time.Time{}, fmt.Errorf("ask for the date of %s: %w", redactURL(u), ErrOffline)
	}
	err = c.retry(ctx, u, func(ctx context.Context) (bool, error) {
		req, err := c.request(ctx, u)
		if err != nil {
			return false, err
		}
		req.Method = http.MethodHead
		watch := newWatch(req, c.stall())
		defer watch.stop()
		resp, err := c.client().Do(watch.req)
		if err != nil {
			return false, watch.explain(err)
		}
		_ = resp.Body.Close() // the answer to HEAD has no content
		if resp.StatusCode != http.StatusOK {
			return false, statusError(resp, u)
		}
		if when, err = http.ParseTime(resp.Header.Get("Last-Modified")); err != nil {
			when = time.Time{}
		}
		return false, nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the date of %s: %w", redactURL(u), err)
	}
	return when.UTC(), nil
}

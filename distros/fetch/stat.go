package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
)

// Stat returns the size of a file, without its content: by a HEAD request or, if a server does not answer
// HEAD or answers without a size, by a request for the first byte. The size is 0 when the server does not
// state it. Errors are those of Get.
func (c *Client) Stat(ctx context.Context, rawURL string) (size int64, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return 0, err
	}
	if u.Scheme == "file" {
		fi, err := os.Stat(u.Path)
		if err != nil {
			return 0, fmt.Errorf("ask for the size of %s: %w", redactURL(u), err)
		}
		return fi.Size(), nil
	}
	if c.Offline {
		return 0, fmt.Errorf("ask for the size of %s: %w", redactURL(u), ErrOffline)
	}
	err = c.retry(ctx, u, func(ctx context.Context) (_ bool, err error) {
		size, err = c.askSize(ctx, u, http.MethodHead)
		var refused *StatusError
		if err == nil && size < 0 || errors.As(err, &refused) && noHead(refused.Code) {
			size, err = c.askSize(ctx, u, http.MethodGet)
		}
		return false, err
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the size of %s: %w", redactURL(u), err)
	}
	return max(size, 0), nil
}

// noHead reports whether an answer may concern only HEAD: servers and object stores with signed addresses
// refuse HEAD in several ways.
func noHead(code int) bool {
	return code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented || code == http.StatusForbidden || code == http.StatusBadRequest
}

// askSize sends one request; the size is -1 when the answer has none.
func (c *Client) askSize(ctx context.Context, u *url.URL, method string) (int64, error) {
	req, err := c.request(ctx, u)
	if err != nil {
		return 0, err
	}
	req.Method = method
	if method == http.MethodGet {
		req.Header.Set("Range", "bytes=0-0")
	}
	watch := newWatch(req, c.stall())
	defer watch.stop()
	resp, err := c.client().Do(watch.req)
	if err != nil {
		return 0, watch.explain(err)
	}
	_ = resp.Body.Close() // its content is not needed
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		_, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || total == 0 {
			return -1, nil
		}
		return total, nil
	case resp.StatusCode != http.StatusOK:
		return 0, statusError(resp, u)
	}
	return resp.ContentLength, nil
}

package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

const maxRedirects = 10

// client returns the caller's client with this package's rules: no redirect from https to http, and no limit
// on the whole transfer (the stall watch is the limit).
func (c *Client) client() *http.Client {
	h := http.Client{}
	if c.HTTP != nil {
		h = *c.HTTP
	}
	h.Timeout = 0
	inner := h.CheckRedirect
	h.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
			return errDowngrade
		}
		if inner != nil {
			return inner(req, via)
		}
		if len(via) >= maxRedirects {
			return errRedirects
		}
		return nil
	}
	return &h
}

func (c *Client) request(ctx context.Context, u *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, unwrapURLError(err)
	}
	req.Header.Set("User-Agent", cmp.Or(c.UserAgent, "driver-build"))
	// Without this, net/http requests gzip and unpacks it: sizes and ranges would count other bytes.
	req.Header.Set("Accept-Encoding", "identity")
	return req, nil
}

func (c *Client) stall() time.Duration {
	return cmp.Or(max(c.Stall, 0), defaultStall)
}

// watch ends a request when nothing has arrived for a while: no header, or no further byte of the body.
type watch struct {
	req     *http.Request
	timer   *time.Timer
	limit   time.Duration
	cancel  context.CancelFunc
	stalled atomic.Bool
}

func newWatch(req *http.Request, limit time.Duration) *watch {
	ctx, cancel := context.WithCancel(req.Context())
	w := &watch{req: req.WithContext(ctx), limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() {
		w.stalled.Store(true)
		cancel()
	})
	return w
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel()
}

// explain replaces the "context canceled" of net/http with the reason.
func (w *watch) explain(err error) error {
	if w.stalled.Load() {
		return fmt.Errorf("%w (%v)", errStalled, w.limit)
	}
	return unwrapURLError(err)
}

func (w *watch) reader(r io.Reader) io.Reader { return watchedReader{r, w} }

type watchedReader struct {
	io.Reader
	watch *watch
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.watch.timer.Reset(r.watch.limit)
	}
	return n, err
}

func statusError(resp *http.Response, u *url.URL) *StatusError {
	return &StatusError{URL: redactURL(u), Code: resp.StatusCode, retryAfter: RetryAfter(resp)}
}

// permanent reports whether another attempt is pointless: local errors, certificates, and answers that mean
// "never".
func permanent(err error) bool {
	var local *localError
	var cert *tls.CertificateVerificationError
	var status *StatusError
	switch {
	case errors.As(err, &local), errors.As(err, &cert), errors.Is(err, errDowngrade), errors.Is(err, errRedirects):
		return true
	case errors.As(err, &status):
		return status.Code < 500 && status.Code != http.StatusTooManyRequests && status.Code != http.StatusRequestTimeout
	}
	return false
}

// retry calls try until it succeeds, cannot succeed, or has failed too often in a row without progress. It
// honours Retry-After. It returns network errors as ErrUnreachable with the host, and those of ctx and of
// this machine unchanged.
func (c *Client) retry(ctx context.Context, u *url.URL, try func(context.Context) (progressed bool, err error)) error {
	tries, err := Retry{cmp.Or(max(c.Attempts, 0), defaultAttempts), cmp.Or(max(c.Backoff, 0), defaultBackoff), permanent}.Do(ctx, try)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return giveUp(err, u, tries)
}

func giveUp(err error, u *url.URL, tries int) error {
	if _, ok := errors.AsType[*localError](err); ok {
		return err
	}
	after := ""
	if tries > 1 {
		after = fmt.Sprintf(" after %d tries", tries)
	}
	if _, ok := errors.AsType[*StatusError](err); ok { // it is reachable, but an ErrUnreachable nevertheless
		return fmt.Errorf("%s%s: %w", u.Host, after, err)
	}
	return fmt.Errorf("%s %w%s: %w", u.Host, ErrUnreachable, after, err)
}

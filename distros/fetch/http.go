package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const maxRedirects = 10

// client returns the caller's client with this package's rules: no redirect from https to http, and
// no limit on the whole transfer (the stall watch is the limit).
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

// ask is send with the retries of the client.
func (c *Client) ask(
	ctx context.Context,
	u *url.URL,
	method string,
	header http.Header,
	use func(*http.Response, io.Reader) error,
) error {
	return c.retry(
		ctx,
		u,
		func(ctx context.Context) (bool, error) { return false, c.send(ctx, u, method, header, use) },
	)
}

// send sends one request and gives its answer to use. It ends both when nothing has arrived for a
// while: no header, or no further byte of the body.
func (c *Client) send(
	ctx context.Context,
	u *url.URL,
	method string,
	header http.Header,
	use func(*http.Response, io.Reader) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := c.stall()
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w (%v)", errStalled, limit)) })
	defer timer.Stop()
	err := c.exchange(ctx, u, method, header, func(resp *http.Response) error {
		return use(resp, readFunc(func(p []byte) (int, error) {
			n, err := resp.Body.Read(p)
			if n > 0 {
				timer.Reset(limit)
			}
			return n, err
		}))
	})
	// else net/http says "context canceled"
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return context.Cause(ctx)
	}
	return unwrapURLError(err)
}

func (c *Client) exchange(
	ctx context.Context,
	u *url.URL,
	method string,
	header http.Header,
	use func(*http.Response) error,
) error {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	// Amazon S3 reads a plus sign in a path as a blank, and answers 403: Amazon Linux' repositories
	// are there. apt (Acquire::URIEncode) and dnf write it so too.
	req.URL.RawPath = strings.ReplaceAll(req.URL.EscapedPath(), "+", "%2B")
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", cmp.Or(c.UserAgent, "driver-build"))
	// Without this, net/http requests gzip and unpacks it: sizes and ranges would count other
	// bytes.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := c.client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // opened for reading
	return use(resp)
}

func (c *Client) stall() time.Duration {
	return cmp.Or(max(c.Stall, 0), defaultStall)
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func statusError(resp *http.Response, u *url.URL) *StatusError {
	return &StatusError{
		URL:        shown(u),
		Code:       resp.StatusCode,
		retryAfter: RetryAfter(resp),
	}
}

// permanent reports whether another attempt is pointless: local errors, certificates, and answers
// that mean "never".
func permanent(err error) bool {
	var local *localError
	var cert *tls.CertificateVerificationError
	var status *StatusError
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return name.IsNotFound // there is no such host
	case errors.As(err, &local),
		errors.As(err, &cert),
		errors.Is(err, errDowngrade),
		errors.Is(err, errRedirects):
		return true
	case errors.As(err, &status):
		return status.Code < 500 && status.Code != http.StatusTooManyRequests &&
			status.Code != http.StatusRequestTimeout &&
			!status.late
	}
	return false
}

// retry calls try until it succeeds, cannot succeed, or has failed too often in a row without
// progress. It honours Retry-After. It returns network errors as ErrUnreachable with the host, and
// those of ctx and of this machine unchanged.
func (c *Client) retry(
	ctx context.Context,
	u *url.URL,
	try func(context.Context) (progressed bool, err error),
) error {
	tries, err := Retry{
		cmp.Or(max(c.Attempts, 0), defaultAttempts),
		cmp.Or(max(c.Backoff, 0), defaultBackoff),
		permanent,
	}.Do(ctx, try)
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
	// it is reachable, but an ErrUnreachable nevertheless
	if _, ok := errors.AsType[*StatusError](err); ok {
		return fmt.Errorf("%s%s: %w", u.Host, after, err)
	}
	return fmt.Errorf("%s %w%s: %w", u.Host, ErrUnreachable, after, err)
}

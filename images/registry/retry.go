package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
)

// limits are the deadlines of a client. Tests have shorter ones.
type limits struct {
	request time.Duration // for a request without a blob, from dialling to the last byte of the answer
	stall   time.Duration // for the registry to take the next bytes of an upload
	commit  time.Duration // for the answer after the last byte of a blob: the registry may copy and hash it first
}

var defaultLimits = limits{request: time.Minute, stall: 2 * time.Minute, commit: 10 * time.Minute}

const maxErrorBody = 64 << 10

// finalError marks an error that no further attempt can cure.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// try calls f, each time with a new deadline, until f succeeds, cannot succeed, or has failed too often.
func (c *Client) try(ctx context.Context, attempts int, limit time.Duration, f func(context.Context) error) error {
	_, err := fetch.Retry{Attempts: attempts, Backoff: c.opts.Backoff, Final: final}.Do(ctx, func(ctx context.Context) (bool, error) {
		return false, once(ctx, limit, f)
	})
	return err
}

func once(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

// final reports whether a further attempt is pointless. It checks for certificate errors first: where plain
// HTTP is allowed too, the error of the handshake has the errors of both ways, and the answer of a TLS server
// to plain HTTP means nothing.
func final(err error) bool {
	var marked *finalError
	var dns *net.DNSError
	var mismatch *fetch.MismatchError
	if isCertificate(err) || errors.As(err, &marked) || errors.As(err, &mismatch) {
		return true
	}
	if code := status(err); code != 0 {
		return code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
	}
	return errors.As(err, &dns) && dns.IsNotFound
}

// check returns nil if the answer's status is one of codes, else a StatusError. It reads at most a small part
// of the body.
func check(resp *http.Response, codes ...int) error {
	if slices.Contains(codes, resp.StatusCode) {
		return nil
	}
	e := &StatusError{Code: resp.StatusCode, retryAfter: fetch.RetryAfter(resp)}
	if resp.Request == nil || resp.Request.Method != http.MethodHead {
		e.Message = message(resp.Body)
	}
	return e
}

// message returns the text of the errors document that registries send, see "Error Codes" in the OCI
// distribution specification.
func message(body io.Reader) string {
	var doc struct {
		Errors []struct{ Code, Message string }
	}
	if json.NewDecoder(io.LimitReader(body, maxErrorBody)).Decode(&doc) != nil {
		return ""
	}
	var all []string
	for _, e := range doc.Errors {
		all = append(all, strings.TrimSpace(e.Code+" "+e.Message))
	}
	return clean(strings.Join(all, "; "))
}

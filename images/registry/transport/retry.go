package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
)

// finalError marks an error that no further attempt can cure.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// Final marks an error that no further attempt can cure.
func Final(err error) error { return &finalError{err} }

// Try calls f, each time with a new deadline, until f succeeds, cannot succeed, or has failed too often.
func (p *Pool) Try(ctx context.Context, attempts int, limit time.Duration, f func(context.Context) error) error {
	_, err := fetch.Retry{Attempts: attempts, Backoff: p.opts.Backoff, Final: IsFinal}.Do(ctx, func(ctx context.Context) (bool, error) {
		return false, Once(ctx, limit, f)
	})
	return err
}

// Once calls f with a deadline.
func Once(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

// IsMarked reports whether an error was marked with [Final].
func IsMarked(err error) bool {
	_, ok := errors.AsType[*finalError](err)
	return ok
}

// IsFinal reports whether a further attempt is pointless. It checks for certificate errors first: where plain
// HTTP is allowed too, the error of the handshake has the errors of both ways, and the answer of a TLS server
// to plain HTTP means nothing.
func IsFinal(err error) bool {
	var dns *net.DNSError
	var mismatch *fetch.MismatchError
	if IsCertificate(err) || IsMarked(err) || errors.As(err, &mismatch) {
		return true
	}
	// A manifest is pushed after its blobs. A registry that misses one nevertheless is behind: another
	// client may push the same blob at this moment (seen with docker-registry 2.8, which rewrites the link
	// to it in place).
	if answer, ok := errors.AsType[*StatusError](err); ok && answer.lacksBlob {
		return false
	}
	if code := Status(err); code != 0 {
		return code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
	}
	return errors.As(err, &dns) && dns.IsNotFound
}

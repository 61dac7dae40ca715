package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
)

// ErrUnreachable says that a server did not deliver content, after all attempts: no connection, an
// HTTP error, or an incomplete body. A later attempt may succeed.
var ErrUnreachable = failure.New(failure.Network, "unreachable")

// ErrOffline says that content is not in the store and that the client may not download it.
var ErrOffline = failure.New(
	failure.Network,
	"not in the cache, and downloads are switched off (--offline)",
)

// errStalled is the cause that ends a transfer in which no byte arrived for too long.
var errStalled = errors.New("no byte arrived for too long")

// errDowngrade refuses a redirect from https to http.
var errDowngrade = errors.New("redirected from https to http, refused")

// errRedirects ends a circle of redirects.
var errRedirects = errors.New("more than 10 redirects")

// StatusError is an answer of a server with another status than success. For 404 and 410 it is also
// fs.ErrNotExist.
type StatusError struct {
	URL        string        // without credentials
	Code       int           // the HTTP status
	retryAfter time.Duration // the pause that the server requested, 0 if none
	late       bool          // the file exists elsewhere, and may come
}

// RetryAfter is the pause that the server requested; 0 if none.
func (e *StatusError) RetryAfter() time.Duration { return e.retryAfter }

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Code == http.StatusNotFound || e.Code == http.StatusGone {
		text += " (an index that is newer or older than the files beside it: try again later or another mirror)"
	}
	return text
}

// FailureKind says what the command makes of it.
func (*StatusError) FailureKind() failure.Kind { return failure.Network }

// Is makes every such answer an ErrUnreachable, and errors.Is(err, fs.ErrNotExist) true when the
// server says that the file does not exist.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnreachable ||
		target == fs.ErrNotExist && (e.Code == http.StatusNotFound || e.Code == http.StatusGone)
}

// MismatchError says that the arrived content is not the requested one. Its bytes were never used.
type MismatchError struct {
	URL string // without credentials
	// sha256 in hex, or sha512 where that was requested; Got is that of the arrived bytes
	Want, Got string
	// bytes; WantSize 0: unknown; GotSize is the announced size when reading was stopped early
	WantSize, GotSize int64
	// the digest is that of a manifest or a list, so that there is no checksum to correct
	Named bool
}

func (e *MismatchError) Error() string {
	text := fmt.Sprintf(
		"%s is not what was asked for: %s is %s, expected %s",
		e.URL,
		kind(e.Want),
		e.Got,
		e.Want,
	)
	if e.WantSize > 0 && e.WantSize != e.GotSize {
		text = fmt.Sprintf(
			"%s is not what was asked for: size is %d bytes, expected %d with %s %s",
			e.URL,
			e.GotSize,
			e.WantSize,
			kind(e.Want),
			e.Want,
		)
	}
	if e.Named {
		return text + "; it is damaged: copy it from its origin again"
	}
	return text + "; correct the checksum if the new content is right, else distrust the source"
}

// FailureKind says what the command makes of it.
func (*MismatchError) FailureKind() failure.Kind { return failure.Content }

// unwrapURLError removes the wrapper of net/http, which repeats the URL with its secrets.
func unwrapURLError(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// ErrUnreachable says that content could not be had from its server: no connection, an HTTP error, or a body that broke
// off, after all retries. Trying again later may help.
var ErrUnreachable = errors.New("unreachable")

// ErrOffline says that content is not in the store and that the client is not allowed to go and get it.
var ErrOffline = errors.New("not in the cache, and downloads are switched off (--offline)")

// ErrTooLarge says that a document is larger than its reader allows.
var ErrTooLarge = errors.New("larger than allowed")

// errStalled is the cause of a transfer given up because no byte came for too long.
var errStalled = errors.New("no byte arrived for too long")

// errDowngrade refuses a redirect that would leave TLS.
var errDowngrade = errors.New("redirected from https to http, refused")

// errRedirects ends a circle of redirects.
var errRedirects = errors.New("more than 10 redirects")

// StatusError is an answer of a server other than success. It is also fs.ErrNotExist for 404 and 410.
type StatusError struct {
	URL        string        // without credentials
	Code       int           // the HTTP status
	retryAfter time.Duration // what the server asked for, 0 if nothing
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Code == http.StatusNotFound || e.Code == http.StatusGone {
		text += " (an index that is newer or older than the files beside it: try again later or another mirror)"
	}
	return text
}

// Is makes every such answer an ErrUnreachable, and errors.Is(err, fs.ErrNotExist) true when the server says that there is no
// such file.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnreachable || target == fs.ErrNotExist && (e.Code == http.StatusNotFound || e.Code == http.StatusGone)
}

// MismatchError says that what arrived is not what was asked for. The bytes were never used.
type MismatchError struct {
	URL               string // without credentials
	Want, Got         string // sha256 in hex, or sha512 where that was asked for; Got is of the bytes that were read
	WantSize, GotSize int64  // bytes; WantSize 0 when unknown; GotSize as announced when reading was stopped early
	Kept              string // where the bytes are, for inspection; "" when they could not be kept
}

func (e *MismatchError) Error() string {
	text := fmt.Sprintf("%s is not what was asked for: %s is %s, expected %s", e.URL, kind(e.Want), e.Got, e.Want)
	if e.WantSize > 0 && e.WantSize != e.GotSize {
		text = fmt.Sprintf("%s is not what was asked for: size is %d bytes, expected %d with %s %s", e.URL, e.GotSize, e.WantSize, kind(e.Want), e.Want)
	}
	if e.Kept != "" {
		text += "; it was not used, what arrived is kept for inspection in " + e.Kept
	}
	return text + "; correct the checksum if the new content is right, else distrust the source"
}

// diskFull adds what to do to an error that says that a disk is full; other errors pass unchanged.
func diskFull(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the disk that holds %s is full: free some space or name another folder (driver-build: --cache, driver-entrypoint: --state-dir): %w", path, err)
	}
	return err
}

// display is a URL for people: without user, password and query, all of which may be secrets.
func display(u *url.URL) string {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	if c.RawQuery != "" {
		c.RawQuery = "..."
	}
	return c.String()
}

// bare drops the wrapping of net/http, which repeats the URL with its secrets.
func bare(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

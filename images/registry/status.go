package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/distros/fetch"
)

// noReferrersAPI are the answers of registries without the referrers API: 404 says the standard,
// the others were seen.
// https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#listing-referrers
var noReferrersAPI = []int{
	http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented,
}

// StatusError is an answer with another status than success.
type StatusError struct {
	answer     *transport.Error
	retryAfter time.Duration
}

// statusError makes a *StatusError of an answer as go-containerregistry reads it. pause is what the
// registry asked to wait. Other errors stay.
func statusError(err error, pause time.Duration) error {
	answer, ok := errors.AsType[*transport.Error](err)
	// a server of HTTPS has an answer for plain HTTP, which is tried after it
	if !ok || isCertificate(err) {
		return err
	}
	return &StatusError{answer, pause}
}

// RetryAfter is the pause that the registry requested; 0 if none.
func (e *StatusError) RetryAfter() time.Duration { return e.retryAfter }

func (e *StatusError) Error() string {
	text := fmt.Sprintf(
		"it answered %d %s", e.answer.StatusCode, http.StatusText(e.answer.StatusCode),
	)
	words := e.words()
	if words != "" {
		text += " (" + words + ")"
	}
	return text
}

// Is makes errors.Is(err, fs.ErrNotExist) true for 404.
func (e *StatusError) Is(target error) bool {
	return target == fs.ErrNotExist && e.answer.StatusCode == http.StatusNotFound
}

// words returns what the registry says, cleaned and shortened; it may be empty. A page of HTML says
// nothing.
func (e *StatusError) words() string {
	var all []string
	for _, said := range e.answer.Errors {
		text := string(said.Code) + " " + said.Message
		detail, ok := said.Detail.(string)
		if ok && detail != said.Message {
			text += " " + detail
		}
		all = append(all, strings.TrimSpace(text))
	}
	if len(all) > 0 {
		return printable(strings.Join(all, "; "))
	}
	code := e.answer.StatusCode
	before := fmt.Sprintf("%d %s: ", code, http.StatusText(code))
	_, body, _ := strings.Cut(e.answer.Error(), before)
	if strings.HasPrefix(strings.TrimSpace(body), "<") {
		return ""
	}
	return printable(body)
}

// request is what the registry answered; never nil.
func (e *StatusError) request() *http.Request {
	if e.answer.Request == nil {
		return &http.Request{URL: &url.URL{}}
	}
	return e.answer.Request
}

// refused says that the registry does not accept the user and the password.
func (e *StatusError) refused() bool {
	sent := e.request().Header.Get("Authorization")
	return e.answer.StatusCode == http.StatusUnauthorized && strings.HasPrefix(sent, "Basic ")
}

// lacksBlob says that the registry misses a blob that a manifest names.
func (e *StatusError) lacksBlob() bool {
	return slices.ContainsFunc(e.answer.Errors, func(said transport.Diagnostic) bool {
		return said.Code == transport.ManifestBlobUnknownErrorCode
	})
}

// lacksReferrersAPI says whether an error is the answer of a registry without the referrers API.
func lacksReferrersAPI(err error) bool {
	answer, ok := errors.AsType[*StatusError](err)
	return ok && strings.Contains(answer.request().URL.Path, "/referrers/") &&
		slices.Contains(noReferrersAPI, answer.answer.StatusCode)
}

// statusOf returns the HTTP status of an error, 0 if it has none.
func statusOf(err error) int {
	var own *StatusError
	var fetched *fetch.StatusError // of a blob
	switch {
	case errors.As(err, &own):
		return own.answer.StatusCode
	case errors.As(err, &fetched):
		return fetched.Code
	}
	return 0
}

// finalError marks an error that no further attempt can cure.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

func final(err error) error { return &finalError{err} }

// isFinal reports whether a further attempt is pointless.
func isFinal(err error) bool {
	var dns *net.DNSError
	var mismatch *fetch.MismatchError
	var marked *finalError
	if isCertificate(err) || errors.As(err, &marked) || errors.As(err, &mismatch) || isPlain(err) {
		return true
	}
	// A manifest is pushed after its blobs. A registry that misses one nevertheless is behind:
	// another client may push the same blob at this moment (seen with docker-registry 2.8, which
	// rewrites the link to it in place).
	answer, ok := errors.AsType[*StatusError](err)
	if ok && answer.lacksBlob() {
		return false
	}
	code := statusOf(err)
	if code != 0 {
		return code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
	}
	return errors.As(err, &dns) && dns.IsNotFound
}

// isPlain reports whether a server does not speak TLS. Go knows answers of HTTP; other servers
// answer the first bytes of TLS with a page.
func isPlain(err error) bool {
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	return noTLS || errors.Is(err, http.ErrSchemeMismatch)
}

// isCertificate reports whether the certificate of the server is the cause.
func isCertificate(err error) bool {
	_, found := errors.AsType[*tls.CertificateVerificationError](err)
	return found
}

// printable makes a server's text printable on one line of a terminal.
func printable(s string) string {
	r := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
	if len(r) > 300 {
		return strings.TrimSpace(string(r[:300])) + "..."
	}
	return strings.TrimSpace(string(r))
}

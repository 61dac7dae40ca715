package registry

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
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
	Code       int    // the HTTP status
	Message    string // the registry's message, cleaned and shortened; may be empty
	retryAfter time.Duration
	refused    bool // user and password
	lacksBlob  bool // that a manifest names
	referrers  bool // it answers a request for referrers
	upload     bool // it answers a request that sends something
}

// RetryAfter is the pause that the registry requested; 0 if none.
func (e *StatusError) RetryAfter() time.Duration { return e.retryAfter }

func (e *StatusError) Error() string {
	s := fmt.Sprintf("it answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	return s
}

// Is makes errors.Is(err, fs.ErrNotExist) true for 404.
func (e *StatusError) Is(target error) bool {
	return target == fs.ErrNotExist && e.Code == http.StatusNotFound
}

// lacksReferrersAPI says whether an error is the answer of a registry without the referrers API.
func lacksReferrersAPI(err error) bool {
	answer, ok := errors.AsType[*StatusError](err)
	return ok && answer.referrers && slices.Contains(noReferrersAPI, answer.Code)
}

// newStatusError makes an error of an answer, with the beginning of its body.
func newStatusError(resp *http.Response, body []byte) *StatusError {
	e := &StatusError{Code: resp.StatusCode, retryAfter: fetch.RetryAfter(resp)}
	e.judge(resp.Request)
	// its errors are those of "Error Codes" in the OCI distribution specification
	var document transport.Error
	if json.Unmarshal(body, &document) == nil && len(document.Errors) > 0 {
		e.tell(document.Errors)
		return e
	}
	if !strings.Contains(resp.Header.Get("Content-Type"), "html") {
		e.Message = plainWords(string(body))
	}
	return e
}

// judge keeps what the request says about the answer to it.
func (e *StatusError) judge(req *http.Request) {
	if req == nil {
		return
	}
	e.refused = e.Code == http.StatusUnauthorized &&
		strings.HasPrefix(req.Header.Get("Authorization"), "Basic ")
	e.referrers = strings.Contains(req.URL.Path, "/referrers/")
	e.upload = req.Method == http.MethodPatch || req.Method == http.MethodPut
}

// tell keeps what a registry says.
func (e *StatusError) tell(all []transport.Diagnostic) {
	var words []string
	for _, said := range all {
		e.lacksBlob = e.lacksBlob || said.Code == transport.ManifestBlobUnknownErrorCode
		text := string(said.Code) + " " + said.Message
		detail, ok := said.Detail.(string)
		if ok && detail != said.Message {
			text += " " + detail
		}
		words = append(words, strings.TrimSpace(text))
	}
	e.Message = printable(strings.Join(words, "; "))
}

// plainWords returns a text that is no page of HTML.
func plainWords(text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		return ""
	}
	return printable(text)
}

// statusOf returns the HTTP status of an error, 0 if it has none.
func statusOf(err error) int {
	var own *StatusError
	var fetched *fetch.StatusError // of a blob
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &fetched):
		return fetched.Code
	}
	return 0
}

// statusError makes a *StatusError of an answer that go-containerregistry got; other errors stay.
func (s *session) statusError(err error) error {
	answer, ok := errors.AsType[*transport.Error](err)
	// a server of HTTPS has an answer for plain HTTP, which is tried after it
	if !ok || isCertificate(err) {
		return err
	}
	e := &StatusError{Code: answer.StatusCode, retryAfter: time.Duration(s.guard.pause.Load())}
	e.judge(answer.Request)
	e.tell(answer.Errors)
	if len(answer.Errors) == 0 {
		_, said, _ := strings.Cut(answer.Error(), http.StatusText(answer.StatusCode)+": ")
		e.Message = plainWords(said)
	}
	return e
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
	if answer, ok := errors.AsType[*StatusError](err); ok && answer.lacksBlob {
		return false
	}
	if code := statusOf(err); code != 0 {
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

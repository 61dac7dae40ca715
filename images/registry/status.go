package registry

import (
	"bytes"
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

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/driver-container/driver-container/distros/fetch"
)

// noReferrersAPI are the answers of registries without the referrers API: 404 says the standard, the others
// were seen. https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#listing-referrers
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

// Is makes errors.Is(err, fs.ErrNotExist) true for 404, and says to oras-go whether a registry has the referrers API.
func (e *StatusError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist, errdef.ErrNotFound:
		return e.Code == http.StatusNotFound
	case errdef.ErrUnsupported:
		return e.referrers && slices.Contains(noReferrersAPI, e.Code)
	}
	return false
}

// newStatusError makes an error of an answer, with the beginning of its body.
func newStatusError(resp *http.Response, body []byte) *StatusError {
	e := &StatusError{Code: resp.StatusCode, retryAfter: fetch.RetryAfter(resp)}
	if req := resp.Request; req != nil {
		e.refused = e.Code == http.StatusUnauthorized && strings.HasPrefix(req.Header.Get("Authorization"), "Basic ")
		e.referrers = strings.Contains(req.URL.Path, "/referrers/")
	}
	var doc struct{ Errors errcode.Errors }
	if json.Unmarshal(body, &doc) != nil || len(doc.Errors) == 0 { // see "Error Codes" in the OCI distribution specification
		if !strings.Contains(resp.Header.Get("Content-Type"), "html") && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			e.Message = printable(string(body))
		}
		return e
	}
	var all []string
	for _, d := range doc.Errors {
		e.lacksBlob = e.lacksBlob || d.Code == errcode.ErrorCodeManifestBlobUnknown
		if detail, ok := d.Detail.(string); ok && detail != d.Message {
			d.Message += " " + detail
		}
		all = append(all, strings.TrimSpace(d.Code+" "+d.Message))
	}
	e.Message = printable(strings.Join(all, "; "))
	return e
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

// loginError makes a StatusError of an error of oras-go's login: answers of the server of tokens, and a registry that asks
// for a password when there is none.
func (s *session) loginError(err error) error {
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return &StatusError{Code: http.StatusUnauthorized}
	}
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	if !ok {
		return err
	}
	e := &StatusError{Code: answer.StatusCode, retryAfter: time.Duration(s.pause.Load())}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.refused = e.Code == http.StatusUnauthorized && s.password != nil && *s.password != auth.EmptyCredential
	if len(answer.Errors) > 0 {
		e.Message = printable(answer.Errors.Error())
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
	if isCertificate(err) || errors.As(err, &marked) || errors.As(err, &mismatch) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	// A manifest is pushed after its blobs. A registry that misses one nevertheless is behind: another
	// client may push the same blob at this moment (seen with docker-registry 2.8, which rewrites the link
	// to it in place).
	if answer, ok := errors.AsType[*StatusError](err); ok && answer.lacksBlob {
		return false
	}
	if code := statusOf(err); code != 0 {
		return code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
	}
	return errors.As(err, &dns) && dns.IsNotFound
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

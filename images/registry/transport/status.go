package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/distros/fetch"
)

const maxErrorBody = 64 << 10

// ErrCredentials says that a registry refuses the user and password that were sent.
var ErrCredentials = errors.New("it does not accept the stored user and password")

// StatusError is an answer with another status than success.
type StatusError struct {
	Code       int    // the HTTP status
	Message    string // the registry's message, cleaned and shortened; may be empty
	retryAfter time.Duration
	refused    bool // user and password
	lacksBlob  bool // that a manifest names
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

// Is makes errors.Is(err, fs.ErrNotExist) true for 404, and ErrCredentials for 401 to a request
// with a password.
func (e *StatusError) Is(target error) bool {
	return target == fs.ErrNotExist && e.Code == http.StatusNotFound || target == ErrCredentials && e.refused
}

// Check returns nil if the answer's status is one of codes, else a StatusError. It reads at most a small part
// of the body.
func Check(resp *http.Response, codes ...int) error {
	if slices.Contains(codes, resp.StatusCode) {
		return nil
	}
	e := &StatusError{Code: resp.StatusCode, retryAfter: fetch.RetryAfter(resp)}
	e.refused = e.Code == http.StatusUnauthorized && resp.Request != nil && strings.HasPrefix(resp.Request.Header.Get("Authorization"), "Basic ")
	if resp.Request == nil || resp.Request.Method != http.MethodHead {
		e.Message, e.lacksBlob = message(resp)
	}
	return e
}

// message returns what a registry says: the text of the errors document, see "Error Codes" in the OCI
// distribution specification, or the whole answer if it is another text than a page for browsers. lacksBlob says
// that a blob of a manifest is missing.
func message(resp *http.Response) (text string, lacksBlob bool) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var doc struct {
		Errors []struct {
			Code, Message string
			Detail        any
		}
	}
	if err != nil || json.Unmarshal(raw, &doc) != nil || len(doc.Errors) == 0 {
		if strings.Contains(resp.Header.Get("Content-Type"), "html") || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
			return "", false
		}
		return Clean(string(raw)), false
	}
	var all []string
	for _, e := range doc.Errors {
		lacksBlob = lacksBlob || e.Code == "MANIFEST_BLOB_UNKNOWN"
		if detail, ok := e.Detail.(string); ok && detail != e.Message {
			e.Message += " " + detail
		}
		all = append(all, strings.TrimSpace(e.Code+" "+e.Message))
	}
	return Clean(strings.Join(all, "; ")), lacksBlob
}

// Status returns the HTTP status of an error, 0 if it has none.
func Status(err error) int {
	var own *StatusError
	var theirs *transport.Error
	var fetched *fetch.StatusError
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &theirs):
		return theirs.StatusCode
	case errors.As(err, &fetched):
		return fetched.Code
	}
	return 0
}

// IsCertificate reports whether the certificate of the server is the cause.
func IsCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname)
}

// Clean makes a server's text printable on one line of a terminal.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 300 {
		s = string(slices.Concat(r[:300], []rune("...")))
	}
	return strings.TrimSpace(s)
}

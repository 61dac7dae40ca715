package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Error says that a registry could not be reached, gave a wrong answer, or refused. errors.Is reports it as
// fetch.ErrUnreachable, and as fs.ErrNotExist when the registry says that the thing does not exist. Content
// with a wrong digest is not an Error but a *fetch.MismatchError.
type Error struct {
	Op   string // "pull", "push" or "resolve"
	Ref  string // the image, as the caller wrote it
	Host string // the registry or mirror that was asked last
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: registry %s: %v", e.Op, e.Ref, e.Host, e.Err)
}

// FailureKind says what the command makes of it.
func (*Error) FailureKind() failure.Kind { return failure.Network }

func (e *Error) Unwrap() error { return e.Err }

// Is makes every registry error a fetch.ErrUnreachable, because the command's exit code for both is the same.
func (e *Error) Is(target error) bool { return target == fetch.ErrUnreachable }

// redactedError replaces the text of an error, which may have a URL with a token, and keeps the error
// for errors.As.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// itemError says which blob or manifest an error is about.
type itemError struct {
	item string
	err  error
}

func (e *itemError) Error() string { return e.item + ": " + e.err.Error() }
func (e *itemError) Unwrap() error { return e.err }

// failure converts any error for the caller of this package. Errors of the context, of content and of this
// machine stay as they are; every other one becomes an *Error whose text says what to do and has no secrets.
func wrapped(ctx context.Context, op, ref, host string, err error) error {
	var done *Error
	var mismatch *fetch.MismatchError
	var platform *oci.PlatformError
	var file *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &done), errors.As(err, &platform):
		return err
	case errors.As(err, &mismatch), errors.As(err, &file), errors.Is(err, fetch.ErrOffline), errors.Is(err, syscall.ENOSPC),
		errors.Is(err, context.Canceled), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%s %s: %w", op, ref, err)
	}
	return &Error{Op: op, Ref: ref, Host: host, Err: explain(op, host, err)}
}

// explain returns the text for an error of the network or of a registry.
func explain(op, host string, err error) error {
	var answer *transport.StatusError
	var dns *net.DNSError
	code, text := transport.Status(err), plainText(err)
	hint := func(format string, args ...any) string { // the registry's own words come first
		if words := wordsOf(err); words != "" {
			format = strings.ReplaceAll(fmt.Sprintf("it says %q: ", words), "%", "%%") + format
		}
		return fmt.Sprintf(format, args...)
	}
	switch {
	case transport.IsCertificate(err):
		text = "its certificate is not trusted: " + text + "; give the CA that issued it with --ca FILE"
	case op == "log in to" && (code == http.StatusUnauthorized || code == http.StatusForbidden):
		text = hint("it does not accept this user and password (%d)", code)
	case errors.Is(err, transport.ErrCredentials):
		text = hint("it does not accept the stored user and password (401): %s", loginHint(host))
	case code == http.StatusUnauthorized:
		text = hint("not logged in, or no such image (401): %s", loginHint(host))
	case code == http.StatusForbidden:
		text = hint("the credentials for it do not allow to %s this repository, or the registry allows it to nobody now (403): ask its owner, or log in with another account", verb(op))
	case code == http.StatusNotFound && op == "push":
		text = hint("it does not take images there (404): check the repository's name and that it exists")
	case code == http.StatusNotFound:
		text = hint("no such image, tag or blob (404): check the name")
	case code == http.StatusRequestEntityTooLarge:
		text = hint("it, or a proxy before it, refuses blobs of this size (413): raise its limit")
	case op == "push" && (code == http.StatusBadRequest || code == http.StatusUnsupportedMediaType) && errors.As(err, &answer):
		text = answer.Error() + "; it may not take manifests of this kind"
	case errors.Is(err, http.ErrSchemeMismatch):
		text = "it speaks plain HTTP; if that is intended, allow it with --insecure-registry"
	case errors.As(err, &dns) && dns.IsNotFound:
		text = "no such host: check the name"
		if op == "resolve" || op == "pull" {
			text += "; if only a mirror can be reached, name it with --registry-mirror HOST=MIRROR"
		}
	case errors.As(err, &answer):
		text = answer.Error()
	}
	if item, ok := errors.AsType[*itemError](err); ok {
		text = item.item + ": " + text
	}
	return &redactedError{text: text, err: err}
}

func loginHint(host string) string {
	return fmt.Sprintf("run driver-build login %s, docker login %s or podman login %s", host, host, host)
}

func verb(op string) string {
	if op == "push" {
		return "push to"
	}
	return "pull from"
}

// plainText returns an error's text without URLs, which have tokens and signatures, and without characters
// that a server may have sent to disturb a terminal.
func plainText(err error) string {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok { // of a loopback host plain HTTP was tried too
		return bad.Error()
	}
	if theirs, ok := errors.AsType[*ggcr.Error](err); ok {
		return answerText(theirs)
	}
	if item, ok := errors.AsType[*itemError](err); ok {
		return plainText(item.err)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return plainText(ue.Err)
	}
	text := err.Error()
	if strings.Contains(text, "no token in bearer response") { // go-containerregistry appends the whole answer
		text = "its token server sent no token"
	}
	return transport.Clean(text)
}

func answerText(e *ggcr.Error) string {
	return (&transport.StatusError{Code: e.StatusCode, Message: wordsOf(e)}).Error()
}

// wordsOf returns what a registry says in its answer, cleaned and shortened; "" if it says nothing.
func wordsOf(err error) string {
	if own, ok := errors.AsType[*transport.StatusError](err); ok {
		return own.Message
	}
	var all []string
	if theirs, ok := errors.AsType[*ggcr.Error](err); ok {
		for _, d := range theirs.Errors {
			all = append(all, strings.TrimSpace(string(d.Code)+" "+d.Message))
		}
	}
	return transport.Clean(strings.Join(all, "; "))
}

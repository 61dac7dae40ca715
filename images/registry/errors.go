package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"syscall"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// Error says that a registry could not be reached, gave a wrong answer, or refused. errors.Is
// reports it as fetch.ErrUnreachable, and as fs.ErrNotExist when the registry says that the thing
// does not exist. Content with a wrong digest is not an Error but a *fetch.MismatchError.
type Error struct {
	Op   string // "pull", "push" and the like
	Ref  string // the image, as the caller wrote it
	Host string // the registry or mirror that was asked last
	Err  error  // its text says what to do, and has no secrets
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: registry %s: %v", e.Op, e.Ref, e.Host, e.Err)
}

// FailureKind says what the command makes of it.
func (*Error) FailureKind() failure.Kind { return failure.Network }

func (e *Error) Unwrap() error { return e.Err }

// Is makes every registry error a fetch.ErrUnreachable: plan and the causes of failed targets treat
// a registry that is down as they treat a repository that is.
func (e *Error) Is(target error) bool { return target == fetch.ErrUnreachable }

// redactedError replaces the text of an error, which may have a URL with a token, and keeps the
// error for errors.As.
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

// wrapped converts any error for the caller of this package. Errors of the context, of content and
// of this machine stay as they are; every other one becomes an *Error whose text says what to do
// and has no secrets.
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
	case errors.As(err, &mismatch),
		errors.As(err, &file),
		errors.Is(err, fetch.ErrOffline),
		errors.Is(err, syscall.ENOSPC),
		errors.Is(err, context.Canceled),
		ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%s %s: %w", op, ref, err)
	}
	text := remedy(op, host, err)
	if item, ok := errors.AsType[*itemError](err); ok {
		text = item.item + ": " + text
	}
	return &Error{Op: op, Ref: ref, Host: host, Err: &redactedError{text, err}}
}

// remedy returns the text for an error of the network or of a registry.
func remedy(op, host string, err error) string {
	var dns *net.DNSError
	answer, _ := errors.AsType[*StatusError](err)
	text := plainText(err)
	code := statusOf(err)
	switch {
	case isCertificate(err):
		return "its certificate is not trusted: " + text + "; give the CA that issued it with --ca FILE"
	case isPlain(err):
		return "it speaks plain HTTP; if that is intended, allow it with --insecure-registry"
	case errors.As(err, &dns) && dns.IsNotFound:
		text = "no such host: check the name"
		if op == "pull" {
			text += "; if only a mirror can be reached, name it with --registry-mirror HOST=MIRROR"
		}
		return text
	case op == "push" && answer != nil && (code == http.StatusBadRequest || code == http.StatusUnsupportedMediaType):
		return text + "; it may not take manifests of this kind"
	}
	hint := statusHint(op, host, code, answer != nil && answer.refused())
	switch {
	case hint == "":
		return text
	case answer != nil && answer.words() != "": // the registry's own words come first
		return fmt.Sprintf("it says %q: %s", answer.words(), hint)
	}
	return hint
}

// statusHint says what to do about a status, "" if that is not known.
func statusHint(op, host string, code int, refused bool) string {
	login := fmt.Sprintf(
		"run docker login %s, podman login %s or crane auth login %s",
		host,
		host,
		host,
	)
	verb := "pull from"
	if op == "push" {
		verb = "push to"
	}
	switch {
	case refused:
		return "it does not accept the stored user and password (401): " + login
	case code == http.StatusUnauthorized:
		return "not logged in, or no such image (401): " + login
	case code == http.StatusForbidden:
		return "the credentials for it do not allow to " + verb + " this repository, or the registry allows it to nobody now (403): " +
			"ask its owner, or log in with another account"
	case code == http.StatusNotFound && op == "push":
		return "it does not take images there (404): check the repository's name and that it exists"
	case code == http.StatusNotFound:
		return "no such image, tag or blob (404): check the name"
	case code == http.StatusRequestEntityTooLarge:
		return "it, or a proxy before it, refuses requests of this size (413): raise its limit, in nginx client_max_body_size"
	}
	return ""
}

// address is what an error's text must not have of a URL: passwords, and the query, which has
// tokens and signatures.
var address = regexp.MustCompile(`(//)[^\s/"@]*@|\?[^\s"]+`)

// plainText returns an error's text without secrets and without characters that a server may have
// sent to disturb a terminal.
func plainText(err error) string {
	if answer, ok := errors.AsType[*StatusError](err); ok {
		return answer.Error()
	}
	if item, ok := errors.AsType[*itemError](err); ok {
		err = item.err
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return printable(address.ReplaceAllString(err.Error(), "$1"))
}

package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
)

// What callers switch on with errors.Is. The first three also are fs.ErrPermission or fs.ErrNotExist: asking again is useless until somebody
// changes the cluster.
var (
	ErrForbidden   = errors.New("not allowed")                           // 401, 403
	ErrNotFound    = errors.New("not found")                             // 404
	ErrNoCluster   = errors.New("no Kubernetes API to talk to")          // no server, no token, no name of the node
	ErrUnreachable = errors.New("the Kubernetes API gives no answer")    // network, 429, 5xx: try again later
	errTest        = errors.New("it is not as it was when it was asked") // a JSON patch whose test failed
)

// StatusError is the server's refusal.
type StatusError struct {
	Method, Path string
	Code         int    // of HTTP
	Message      string // the server's words
}

// Error has the server's own words: they name user, verb and resource.
func (e *StatusError) Error() string {
	hint := ""
	switch {
	case e.Is(ErrForbidden):
		hint = "; give the service account this permission, or switch the feature off"
	case e.Is(ErrUnreachable):
		hint = "; it is tried again"
	}
	return fmt.Sprintf("%s %s: %d %s: %s%s", e.Method, e.Path, e.Code, http.StatusText(e.Code), e.Message, hint)
}

// Is groups the codes.
func (e *StatusError) Is(target error) bool {
	switch target { //nolint:errorlint // this is what errors.Is asks
	case ErrForbidden, fs.ErrPermission:
		return e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized
	case ErrNotFound, fs.ErrNotExist:
		return e.Code == http.StatusNotFound
	case ErrUnreachable:
		return e.Code == http.StatusTooManyRequests || e.Code >= 500
	case errTest:
		return e.Code == http.StatusUnprocessableEntity
	}
	return false
}

// noCluster says what a client lacks.
type noClusterError struct{ err error }

func (e *noClusterError) Error() string { return fmt.Sprintf("%v: %v", ErrNoCluster, e.err) }
func (e *noClusterError) Is(target error) bool {
	return target == ErrNoCluster || target == fs.ErrNotExist
}                                       //nolint:errorlint // this is what errors.Is asks
func (e *noClusterError) Unwrap() error { return e.err }

// unreachableError is what the network says.
type unreachableError struct {
	server string
	err    error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%v: %s: %v; it is tried again", ErrUnreachable, e.server, e.err)
}
func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable } //nolint:errorlint // this is what errors.Is asks
func (e *unreachableError) Unwrap() error        { return e.err }

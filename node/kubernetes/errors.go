package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
)

// Errors for errors.Is. The first three also match fs.ErrPermission or fs.ErrNotExist: to ask again is
// useless until somebody changes the cluster.
var (
	ErrForbidden   = errors.New("not allowed")                           // 401, 403
	ErrNotFound    = errors.New("not found")                             // 404
	ErrNoCluster   = errors.New("no Kubernetes API to talk to")          // no server, no token, no name of the node
	ErrUnreachable = errors.New("the Kubernetes API gives no answer")    // network error, 429, 5xx: try again later
	errTest        = errors.New("it is not as it was when it was asked") // the test of a JSON patch failed
)

// StatusError is an answer of the server with an error code.
type StatusError struct {
	Method, Path string
	Code         int    // HTTP status code
	Message      string // the text of the server
}

// Error includes the server's own text, which names user, verb and resource.
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

// Is maps the status codes to the sentinel errors.
func (e *StatusError) Is(target error) bool {
	switch target { //nolint:errorlint // errors.Is calls this method
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

// noClusterError says what the client lacks.
type noClusterError struct{ err error }

func (e *noClusterError) Error() string { return fmt.Sprintf("%v: %v", ErrNoCluster, e.err) }
func (e *noClusterError) Is(target error) bool {
	return target == ErrNoCluster || target == fs.ErrNotExist
}                                       //nolint:errorlint // errors.Is calls this method
func (e *noClusterError) Unwrap() error { return e.err }

// unreachableError wraps an error of the network.
type unreachableError struct {
	server string
	err    error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%v: %s: %v; it is tried again", ErrUnreachable, e.server, e.err)
}
func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable } //nolint:errorlint // errors.Is calls this method
func (e *unreachableError) Unwrap() error        { return e.err }

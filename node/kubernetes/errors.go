package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"
)

// Errors for errors.Is. The first three also match fs.ErrPermission or fs.ErrNotExist: to ask again
// is useless while the cluster stays as it is.
var (
	ErrForbidden = errors.New("not allowed") // 401, 403
	ErrNotFound  = errors.New("not found")   // 404
	// no server, no token, no name of the node
	ErrNoCluster = error(noClusterError{})
	// network error, 409, 429, 5xx: try again later
	ErrUnreachable = errors.New("the Kubernetes API gives no answer")
)

// StatusError is an answer of the server with an error code.
type StatusError struct {
	Method, Path string `json:"-"`
	Code         int    `json:"-"` // HTTP status code
	Message      string `json:"-"` // the text of the server
	// RetryAfter is how long the server asks to wait (header Retry-After); 0 if it does not.
	RetryAfter time.Duration `json:"-"`
	Details    struct {
		Name   string // of the object that it is about; "" if the server knows no such kind
		Causes []Cause
	}
}

// Cause is a reason of an answer: "DisruptionBudget".
type Cause struct{ Reason, Message string }

// Error includes the server's own text, which names user, verb and resource.
func (e *StatusError) Error() string {
	hint := ""
	switch {
	case e.Is(ErrForbidden):
		hint = "; give the service account this permission, or switch the feature off"
	case e.Is(ErrUnreachable):
		hint = "; it is tried again"
	}
	return fmt.Sprintf(
		"%s %s: %d %s: %s%s",
		e.Method,
		e.Path,
		e.Code,
		http.StatusText(e.Code),
		e.Message,
		hint,
	)
}

// RetryAfter returns how long the server asks to wait before the request is sent again, at most an
// hour; 0 if err does not say it.
func RetryAfter(err error) time.Duration {
	answer, ok := errors.AsType[*StatusError](err)
	if !ok {
		return 0
	}
	return answer.RetryAfter
}

// parseRetryAfter reads the header Retry-After: the API server sends a number of seconds.
func parseRetryAfter(header http.Header) time.Duration {
	const most = 3600
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(min(seconds, most)) * time.Second
}

// Is maps the status codes to the sentinel errors.
func (e *StatusError) Is(target error) bool {
	switch target { //nolint:errorlint // errors.Is calls this method
	case ErrForbidden, fs.ErrPermission:
		return e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized
	case ErrNotFound, fs.ErrNotExist:
		return e.Code == http.StatusNotFound
	case ErrUnreachable:
		return e.Code == http.StatusConflict || e.Code == http.StatusTooManyRequests ||
			e.Code >= 500
	}
	return false
}

// noClusterError is ErrNoCluster.
type noClusterError struct{}

func (noClusterError) Error() string { return "no Kubernetes API to talk to" }

func (noClusterError) Is(
	target error,
) bool {
	return target == fs.ErrNotExist
} //nolint:errorlint // errors.Is calls this method

// noCluster says what the client lacks.
func noCluster(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNoCluster, fmt.Errorf(format, args...))
}

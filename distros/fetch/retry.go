package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	maxBackoff    = 30 * time.Second
	maxRetryAfter = 2 * time.Minute
)

// Retry says how often a request is tried.
type Retry struct {
	Attempts int // failures in a row that end it
	// the pause after the first failure; each further one is twice as long, up to 30 s
	Backoff time.Duration
	Final   func(error) bool // reports whether another attempt is pointless
}

// Do calls try until it succeeds, fails in a way that is final, or has failed too often in a row
// without progress. Pauses have jitter, so that clients do not run in step, and are not shorter
// than the server requested: an error with a method RetryAfter knows that. It returns the number of
// calls and the error of the last one; ctx's cause when ctx has ended.
func (r Retry) Do(
	ctx context.Context,
	try func(context.Context) (progress bool, err error),
) (tries int, err error) {
	failures := 0
	pause := r.Backoff
	for {
		progress, err := try(ctx)
		tries++
		if err == nil {
			return tries, nil
		}
		if ctx.Err() != nil {
			return tries, context.Cause(ctx)
		}
		if progress {
			failures = 0
			pause = r.Backoff
		}
		failures++
		if r.Final(err) || failures >= r.Attempts {
			return tries, err
		}
		wait := pause/2 + rand.N(pause/2+1) //nolint:gosec // jitter
		pause = min(2*pause, maxBackoff)
		if asked, ok := errors.AsType[interface {
			error
			RetryAfter() time.Duration
		}](err); ok {
			wait = max(wait, asked.RetryAfter())
		}
		select {
		case <-ctx.Done():
			return tries, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// RetryAfter is the pause that an answer requests, at most 2 minutes; 0 if it requests none.
func RetryAfter(resp *http.Response) time.Duration {
	after := resp.Header.Get("Retry-After")
	pause, err := time.ParseDuration(after + "s")
	if err != nil {
		t, _ := http.ParseTime(after) //nolint:errcheck // then it requests none
		pause = time.Until(t)
	}
	return min(max(pause, 0), maxRetryAfter)
}

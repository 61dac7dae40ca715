package lab

import (
	"testing"
	"time"
)

// Patience is the factor by which a machine is slower than an idle one. Time limits grow with it,
// so that a test on a busy machine is slow and does not fail. The zero value is an idle machine.
type Patience float64

// Measure compares the duration of a step with its duration on an idle machine.
func Measure(took, quiet time.Duration) Patience { return Patience(float64(took) / float64(quiet)) }

// Limit multiplies a time limit for an idle machine by the factor.
func (p Patience) Limit(quiet time.Duration) time.Duration {
	return time.Duration(float64(quiet) * max(1, float64(p)))
}

// Wait calls check until it returns nil, at most for a limit. Then the test fails with the
// description of the condition and the last error.
func (p Patience) Wait(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := p.Poll(limit, check); err != nil {
		t.Fatalf("%s: not within %s: %v", what, p.Limit(limit), err)
	}
}

// Poll calls check until it returns nil, at most for a limit. It returns the last error.
func (p Patience) Poll(limit time.Duration, check func() error) error {
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(p.Limit(limit)); ; <-time.After(pause) {
		if err := check(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

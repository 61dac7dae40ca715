package lab

import (
	"testing"
	"time"
)

// Patience is how many times slower than a quiet one a machine is. Time limits grow with it, so that a test
// on a busy machine is slow and does not fail. The zero value is a quiet machine.
type Patience float64

// Measure compares how long something took with what it takes on a quiet machine.
func Measure(took, quiet time.Duration) Patience { return Patience(float64(took) / float64(quiet)) }

// Limit is a time limit for a quiet machine, stretched for this one.
func (p Patience) Limit(quiet time.Duration) time.Duration {
	return time.Duration(float64(quiet) * max(1, float64(p)))
}

// Wait calls check until it returns nil, at most for a limit; then the test ends with what was waited for and
// the last error.
func (p Patience) Wait(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	const pause = 100 * time.Millisecond
	limit = p.Limit(limit)
	for end := time.Now().Add(limit); ; <-time.After(pause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
	}
}

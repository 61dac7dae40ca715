// Package assert fails a test whose result is not the expected one, and goes on. Package require ends it.
package assert

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
)

// T is what the package needs of a test: those of the packages testing and rapid have it.
type T interface {
	Helper()
	Error(args ...any)
}

// NoError fails the test if there is an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// NoErrorf fails the test if there is an error, and says what failed.
func NoErrorf(t T, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Error(fmt.Sprintf(format, args...) + ": " + err.Error())
	}
}

// Same fails the test if two values differ by [cmp.Diff], and prints the difference.
func Same(t T, want, got any, opts ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, opts...); d != "" {
		t.Error("(-want +got)\n" + d)
	}
}

// Samef is [Same] with a text that says which of several values differ.
func Samef(t T, want, got any, format string, args ...any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(fmt.Sprintf(format, args...) + ":\n" + d)
	}
}

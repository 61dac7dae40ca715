// Package assert fails a test whose result is not the expected one, and goes on. Package require
// ends it. The names are those that Go programmers know; a name with an f takes a text that says
// what was looked at.
package assert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// T is what the package needs of a test: those of the packages testing and rapid have it.
type T interface {
	Helper()
	Error(args ...any)
}

// say fails the test. what is empty or says what was looked at.
func say(t T, what, found string) {
	t.Helper()
	if what != "" {
		found = what + ": " + found
	}
	t.Error(found)
}

// NoError fails the test if there is an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// NoErrorf is NoError with a text.
func NoErrorf(t T, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		say(t, fmt.Sprintf(format, args...), err.Error())
	}
}

// Err returns the error of a call: assert.ErrorIs(t, assert.Err(os.Open(path)), fs.ErrNotExist).
func Err[V any](_ V, err error) error { return err }

// Errorf fails the test if there is no error. The text says what was accepted.
func Errorf(t T, err error, format string, args ...any) {
	t.Helper()
	if err == nil {
		say(t, fmt.Sprintf(format, args...), "no error")
	}
}

// ErrorIs fails the test unless [errors.Is] finds an error in another one.
func ErrorIs(t T, err, want error) {
	t.Helper()
	ErrorIsf(t, err, want, "")
}

// ErrorIsf is ErrorIs with a text.
func ErrorIsf(t T, err, want error, format string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		say(t, fmt.Sprintf(format, args...), fmt.Sprintf("error %v, want %v", err, want))
	}
}

// ErrorContains fails the test unless there is an error whose message contains all parts.
func ErrorContains(t T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		ErrorContainsf(t, err, part, "")
	}
}

// ErrorContainsf is ErrorContains with a text that says what was looked at.
func ErrorContainsf(t T, err error, part, format string, args ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		say(
			t,
			fmt.Sprintf(format, args...),
			fmt.Sprintf("error %v, want one that contains %q", err, part),
		)
	}
}

// Equal fails the test if two values are not the same.
func Equal[V comparable](t T, want, got V) {
	t.Helper()
	Equalf(t, want, got, "")
}

// Equalf is Equal with a text.
func Equalf[V comparable](t T, want, got V, format string, args ...any) {
	t.Helper()
	if got != want {
		verb := "got %+v, want %+v"
		if _, ok := any(got).(string); ok {
			verb = "got %q, want %q"
		}
		say(t, fmt.Sprintf(format, args...), fmt.Sprintf(verb, got, want))
	}
}

// Contains fails the test if a text does not contain another one.
func Contains(t T, text, part string) {
	t.Helper()
	Containsf(t, text, part, "")
}

// Containsf is Contains with a text that says what was looked at.
func Containsf(t T, text, part, format string, args ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		say(t, fmt.Sprintf(format, args...), fmt.Sprintf("no %q in:\n%s", part, text))
	}
}

// Same fails the test if [cmp.Diff] finds a difference, and prints it.
func Same(t T, want, got any, opts ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, opts...); d != "" {
		say(t, "(-want +got)", "\n"+d)
	}
}

// Samef is Same with a text.
func Samef(t T, want, got any, format string, args ...any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		say(t, fmt.Sprintf(format, args...), "\n"+d)
	}
}

// Package require ends a test at an error that it did not expect. Package assert reports one and
// goes on.
package require

import (
	"errors"
	"fmt"
)

// T is what the package needs of a test: those of the packages testing and rapid have it.
type T interface {
	Helper()
	Fatal(args ...any)
}

// NoError ends the test if there is an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NoErrorf ends the test if there is an error, and says what failed.
func NoErrorf(t T, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Sprintf(format, args...) + ": " + err.Error())
	}
}

// Value returns the value of a call, and ends the test if the call failed:
// data := require.Value(os.ReadFile(path))(t).
func Value[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// ErrorAs finds an error of a type, or ends the test.
func ErrorAs[E error](t T, err error) E {
	t.Helper()
	found, ok := errors.AsType[E](err)
	if !ok {
		t.Fatal(fmt.Sprintf("error is %T %v; want a %T", err, err, found))
	}
	return found
}

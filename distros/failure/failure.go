// Package failure says of which kind an error is. The kind is set where an error is made, and a
// command turns it into its exit code.
package failure

import "fmt"

// Kind is the kind of an error. Of several kinds in one error the first of this list counts.
type Kind int

// The kinds, the one that counts most first.
const (
	Unserved Kind = iota + 1 // nodes of a fleet get no driver
	Exposed                  // nodes of a fleet run a driver that is not safe or not supported
	Some                     // some targets of several failed, or a check found something
	Usage                    // what was asked for is wrong, and nothing was made of it
	Content                  // content is not what it should be: a digest, a signature, a format
	// the network, a registry or a daemon failed, or --offline keeps from them
	Network
	Step       // a step of the work failed: compiling, resolving, signing
	Unexpected // none of these: this machine
)

// kinded is an error of a kind.
type kinded struct {
	error
	kind Kind
}

func (e *kinded) FailureKind() Kind { return e.kind }

func (e *kinded) Unwrap() error { return e.error }

// Errorf is fmt.Errorf for an error of a kind.
func Errorf(kind Kind, format string, args ...any) error {
	return &kinded{fmt.Errorf(format, args...), kind}
}

// New is errors.New for an error of a kind.
func New(kind Kind, text string) error { return Errorf(kind, "%s", text) }

// Of gives an error a kind. Of nil is nil.
func Of(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{err, kind}
}

// KindOf is the kind of an error or of what it wraps: of all that have a method FailureKind.
func KindOf(err error) Kind {
	kind := Unexpected
	if e, ok := err.(interface{ FailureKind() Kind }); ok { //nolint:errorlint // the rest of the tree is walked below
		kind = e.FailureKind()
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return min(kind, KindOf(e.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			kind = min(kind, KindOf(inner))
		}
	}
	return kind
}

// Wrap adds to an error what was attempted, unless the error is nil. A function with several errors
// of one attempt defers it: defer failure.Wrap(&err, "read %s", file).
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

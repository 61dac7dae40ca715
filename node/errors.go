package node

import (
	"errors"
	"fmt"
)

// ErrLeft says that the driver was left in place because it is in use. A stop that may do so
// (config.BusyDetach) does not return it.
var ErrLeft = errors.New("left in place")

// ErrOther says that an instance gave the node back while it waited for a fit one, because another
// driver serves it now: see Options.Rechoose.
var ErrOther = errors.New("another driver fits this node")

// RollbackError says that a start failed after it had taken an older driver down, and whether the
// older one was restored.
type RollbackError struct {
	Old, New string // versions
	Err      error  // why the new one failed
	Restore  error  // nil: the old one is restored
}

func (e *RollbackError) Error() string {
	if e.Restore == nil {
		return fmt.Sprintf("driver %s failed to start, %s is loaded again: %v", e.New, e.Old, e.Err)
	}
	return fmt.Sprintf(
		"driver %s failed to start: %v; and %s could not be put back: %v",
		e.New,
		e.Err,
		e.Old,
		e.Restore,
	)
}

func (e *RollbackError) Unwrap() []error { return []error{e.Err, e.Restore} }

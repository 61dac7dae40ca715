package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/kmod"
)

// ErrStopped says that a signal ended a start. What had been put up is taken down again; that is no failure.
var ErrStopped = errors.New("stopped")

// ErrLeft says that the driver was left in place because it is in use. A stop that may do so (BusyDetach)
// does not return it.
var ErrLeft = errors.New("left in place")

// InUseError says that the driver cannot be unloaded because somebody holds it.
type InUseError struct {
	Holders []kmod.Holder // empty: something inside of the kernel
	Module  string        // the module that was refused or has references without a known holder; may be empty
}

func (e *InUseError) Error() string {
	const most = 8
	// NVIDIA's own container prints the first sentence; people search their logs for it.
	text := "Could not unload NVIDIA driver kernel modules, driver is in use"
	if len(e.Holders) == 0 {
		return text + fmt.Sprintf(": no process has its device files open, yet module %s has references (a kernel module or a mapping of a process that this container cannot see: run with hostPID)", e.Module)
	}
	names := make([]string, 0, most)
	for i, h := range e.Holders {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(e.Holders)-most))
			break
		}
		names = append(names, h.String())
	}
	return text + " by " + strings.Join(names, "; ") + ". Stop these processes, or delete their pods"
}

// RollbackError says that a start failed after it had taken an older driver down, and whether the older one
// was restored.
type RollbackError struct {
	Old, New string // versions
	Err      error  // why the new one failed
	Restore  error  // nil: the old one is restored
}

func (e *RollbackError) Error() string {
	if e.Restore == nil {
		return fmt.Sprintf("driver %s failed to start, %s is loaded again: %v", e.New, e.Old, e.Err)
	}
	return fmt.Sprintf("driver %s failed to start: %v; and %s could not be put back: %v", e.New, e.Err, e.Old, e.Restore)
}

func (e *RollbackError) Unwrap() []error { return []error{e.Err, e.Restore} }

//go:build !linux

package chroot

import (
	"fmt"
	"runtime"

	"github.com/driver-container/driver-container/images/runner"
)

// Runner exists on Linux only: New returns none here.
type Runner struct{ runner.Runner }

// Init does nothing: no step starts here.
func Init() {}

// Supported returns why no step can run on this machine. The error wraps runner.ErrUnavailable.
func Supported() error {
	return fmt.Errorf(
		"%w: a chroot of this kind needs Linux, and this is %s",
		runner.ErrUnavailable,
		runtime.GOOS,
	)
}

// New returns no runner: see Supported.
func New(string) (*Runner, error) { return nil, Supported() }

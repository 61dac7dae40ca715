//go:build !linux

package kbuild

import (
	"errors"
	"os"
)

// clone fails: the caller copies.
func clone(_, _ *os.File) error { return errors.ErrUnsupported }

// exchange fails: the caller renames twice.
func exchange(_, _ string) error { return errors.ErrUnsupported }

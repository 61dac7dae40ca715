//go:build !linux

package kbuild

import "errors"

// exchange fails: the caller renames twice.
func exchange(_, _ string) error { return errors.ErrUnsupported }

package kbuild

import "golang.org/x/sys/unix"

// exchange gives each of two names the file of the other, in one step.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

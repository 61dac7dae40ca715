package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/host"
)

// deleteModule is the child that unloads a module: delete_module cannot be interrupted, and a kernel that
// hangs in it must not hang the parent. It is not a verb for people: package node/host is its only caller.
func deleteModule(argv []string, stderr io.Writer) (code int, ok bool) {
	if len(argv) != 3 || argv[1] != host.DeleteVerb {
		return 0, false
	}
	err := kmod.Delete(argv[2])
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, kmod.ErrInUse):
		return host.DeleteInUse, true
	case errors.Is(err, fs.ErrNotExist):
		return host.DeleteAbsent, true
	}
	fmt.Fprintln(stderr, err)
	return exitFailure, true
}

package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// enterMain joins the mount, UTS and IPC namespaces of the process that spec.Join names. Its thread must have
// a file system context of its own (the kernel refuses setns with a context that threads share); exec uses
// the context of the calling thread.
func enterMain() error {
	return handover(func(spec wire.Spec) error {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		var files []*os.File
		for _, name := range []string{"uts", "ipc", "mnt"} {
			f, err := os.Open("/proc/" + spec.Join + "/ns/" + name)
			if err != nil {
				return err
			}
			defer f.Close()
			files = append(files, f)
		}
		for _, f := range files {
			if err := unix.Setns(int(f.Fd()), 0); err != nil {
				return fmt.Errorf("join %s: %w", f.Name(), err)
			}
		}
		return unix.Chdir("/")
	})
}

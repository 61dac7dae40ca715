package chroot

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	maxFiles     = 65536 // open files of a process
	maxProcesses = 16384 // of a step, where a cgroup counts them: far more than make starts on the largest machine
)

// limit sets the resource limits of this process, which the command inherits. The number of processes is not among them:
// that limit counts all processes of a user on the machine, and does not hold for root.
func limit() error {
	for which, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxFiles} {
		var now unix.Rlimit
		if err := unix.Getrlimit(which, &now); err != nil {
			return err
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("resource %d: %w", which, err)
		}
	}
	return nil
}

// limitMemory bounds the memory of a process that has just started, and of its children, each by itself. It is not a limit of
// this process, which would end for it.
func limitMemory(pid int, memory int64) error {
	if memory == 0 {
		return nil
	}
	err := unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(memory), Max: uint64(memory)}, nil)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return err
}

// dropPrivileges takes every capability from this thread, for good, and so from the command that it starts.
func dropPrivileges() error {
	// No process of the step, though it may have the same user, can look into this one, which has files of the machine open.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no more
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	// Old kernels have no ambient set; those that do empty it with the permitted one.
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

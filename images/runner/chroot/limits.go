//go:build linux

package chroot

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	maxFiles = 65536 // open files of a process
	// Processes of a step, where a cgroup counts them: far more than make starts on the largest machine.
	maxProcesses = 16384
)

// limit sets the resource limits of this process, which the command inherits. It sets no limit of processes,
// because that one counts all processes of a user on the machine, and does not hold for root.
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

// limitMemory bounds the memory of a process that has just started, and of each of its children alone. This
// process itself gets no limit, because it would die of it.
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

// dropPrivileges removes every capability from this thread for good, and so from the command that the thread
// starts.
func dropPrivileges() error {
	// No process of the step, which may have the same user, can inspect this one, which has files of the machine
	// open.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no more capabilities
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	// Old kernels have no ambient set; newer ones empty it together with the permitted set.
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

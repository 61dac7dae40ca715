package bounded

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// kernelWait is the longest wait for bytes of a file that the kernel writes while it is read.
const kernelWait = 2 * time.Second

// kernelFiles are file systems with files that look regular and may never end, such as /proc/kmsg
// and trace_pipe.
var kernelFiles = []int64{
	unix.PROC_SUPER_MAGIC,
	unix.SYSFS_MAGIC,
	unix.TRACEFS_MAGIC,
	unix.DEBUGFS_MAGIC,
}

// limitWait gives the reads of a file of the kernel a deadline. It does nothing about other files,
// and about those that never wait.
func limitWait(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	var system unix.Statfs_t
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Fstatfs(int(fd), &system) })
	if err == nil && failed == nil && slices.Contains(kernelFiles, int64(system.Type)) { //nolint:unconvert // its type differs between architectures
		_ = f.SetReadDeadline(time.Now().Add(kernelWait)) // an error: it never waits
	}
}

package lock

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// identify finds a process that keeps the lock when its file names nobody or somebody who is gone: after a SIGKILL NVIDIA's
// lock is kept by a daemon that inherited the descriptor, and people want to know which. /proc/locks would name the long
// gone flock(1) that their script ran. A process of another pid namespace cannot be seen; what is known then stays.
func (e *HeldError) identify(proc string) {
	if e.file == nil || e.Holder.PID > 0 && unix.Kill(e.Holder.PID, 0) != unix.ESRCH {
		return
	}
	if pid := keeper(proc, e.file); pid > 0 {
		e.Holder.PID = pid
	}
}

// keeper is a process with a locked descriptor of the file, 0 when none is seen.
func keeper(proc string, file fs.FileInfo) int {
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return 0
	}
	for _, link := range links { // whatever vanishes meanwhile is skipped
		if st, err := os.Stat(link); err != nil || !os.SameFile(st, file) {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		info, err := os.ReadFile(filepath.Join(dir, "fdinfo", filepath.Base(link)))
		if pid, bad := strconv.Atoi(filepath.Base(dir)); err == nil && bad == nil && locked(info) {
			return pid
		}
	}
	return 0
}

// locked says whether a descriptor has an exclusive flock: a line such as `lock:	1: FLOCK  ADVISORY  WRITE 4711 00:1a:5 0 EOF`.
func locked(fdinfo []byte) bool {
	for line := range bytes.Lines(fdinfo) {
		f := bytes.Fields(line)
		if len(f) > 4 && string(f[0]) == "lock:" && string(f[2]) == "FLOCK" && string(f[4]) == "WRITE" {
			return true
		}
	}
	return false
}

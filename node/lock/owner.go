package lock

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// identify finds the process that has the lock when the lock file names nobody, or a process that no longer
// exists. After a SIGKILL of NVIDIA's container a daemon that inherited the descriptor keeps the lock, and
// people want to know which one. /proc/locks is no help: it names the flock(1) process that their script ran,
// which ended long ago. A process of another pid namespace is invisible; the holder then stays as the file
// names it.
func (e *HeldError) identify(proc string) {
	if e.file == nil || e.Holder.PID > 0 && unix.Kill(e.Holder.PID, 0) != unix.ESRCH {
		return
	}
	if pid := flockOwner(proc, e.file); pid > 0 {
		e.Holder.PID = pid
	}
}

// flockOwner returns the id of a process that has a locked descriptor of the file, 0 when it sees none.
func flockOwner(proc string, file fs.FileInfo) int {
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return 0
	}
	for _, link := range links { // a process or descriptor that vanishes meanwhile is skipped
		if st, err := os.Stat(link); err != nil || !os.SameFile(st, file) {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		info, err := os.ReadFile(filepath.Join(dir, "fdinfo", filepath.Base(link)))
		if pid, bad := strconv.Atoi(filepath.Base(dir)); err == nil && bad == nil && hasExclusiveFlock(info) {
			return pid
		}
	}
	return 0
}

// hasExclusiveFlock says whether a descriptor has an exclusive flock. Its fdinfo then has a line such as
// `lock:	1: FLOCK  ADVISORY  WRITE 4711 00:1a:5 0 EOF`.
func hasExclusiveFlock(fdinfo []byte) bool {
	for line := range bytes.Lines(fdinfo) {
		f := bytes.Fields(line)
		if len(f) > 4 && string(f[0]) == "lock:" && string(f[2]) == "FLOCK" && string(f[4]) == "WRITE" {
			return true
		}
	}
	return false
}

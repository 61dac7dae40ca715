package shim

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// FreeMemory gives the node what only the start of this process needed: the unused heap, and the
// pages of the program's file, most of which are code that runs once. Pages that are used again
// come back from the page cache. A failure is ignored: it only costs memory.
func FreeMemory() {
	dropFilePages("/proc/self/smaps")
	debug.FreeOSMemory()
}

// dropFilePages drops the pages of the mappings of files that the process neither can change nor
// has changed: a page that was changed in memory, as a dynamic loader or a debugger does, is not in
// the file.
func dropFilePages(table string) {
	smaps, err := os.Open(table)
	if err != nil {
		return
	}
	defer smaps.Close()
	// of a private mapping of a file that is not writable; 0: the lines are of another one
	var from, to uintptr
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		var start, end, offset, inode uintptr
		var rights, device string
		changed := -1
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &start, &end, &rights, &offset, &device, &inode); n == 6 {
			from = start
			to = end
			if inode == 0 || rights != "r-xp" && rights != "r--p" {
				from = 0
				to = 0
			}
		} else if _, _ = fmt.Sscanf(lines.Text(), "Anonymous: %d", &changed); changed == 0 && from != 0 {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
		}
	}
}

package mounttable

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Users names at most five processes, of this container or of the node, that have a file of the mount open or mapped, or their root or
// working folder in it: "4711 (nvidia-smi)". They are those that procfs shows: without hostPID not the node's.
func (m Mount) Users(proc string) (names []string) {
	dirs, _ := filepath.Glob(filepath.Join(proc, "[0-9]*")) //nolint:errcheck // the pattern is good
	for _, dir := range dirs {
		if len(names) == 5 {
			break
		}
		if m.usedBy(dir) {
			comm, _ := bounded.Text(filepath.Join(dir, "comm"), 64) //nolint:errcheck // a process that ended has no name
			names = append(names, fmt.Sprintf("%s (%s)", filepath.Base(dir), strings.TrimSpace(comm)))
		}
	}
	return names
}

func (m Mount) usedBy(dir string) bool {
	links, _ := filepath.Glob(filepath.Join(dir, "fd", "*")) //nolint:errcheck // the pattern is good
	for _, link := range append(links, filepath.Join(dir, "cwd"), filepath.Join(dir, "root")) {
		path, err := os.Readlink(link)
		var st unix.Stat_t
		if err == nil && AtOrBelow(path, m.Point) && unix.Stat(link, &st) == nil && m.Device == [2]int{int(unix.Major(st.Dev)), int(unix.Minor(st.Dev))} {
			return true
		}
	}
	f, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return false
	}
	defer f.Close()
	device := fmt.Sprintf(" %02x:%02x ", m.Device[0], m.Device[1])
	for lines := bufio.NewScanner(io.LimitReader(f, 16<<20)); lines.Scan(); {
		if at := strings.IndexByte(lines.Text(), '/'); at > 0 && strings.Contains(lines.Text()[:at], device) && AtOrBelow(lines.Text()[at:], m.Point) {
			return true
		}
	}
	return false
}

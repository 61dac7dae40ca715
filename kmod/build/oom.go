package build

import (
	"bufio"
	"bytes"
	"path/filepath"
	"strings"
)

// oomKills counts the processes of this container that the kernel has killed for want of memory; -1 when it does not say.
//
// A killed compiler must never go unnoticed: NVIDIA's tests of the kernel's interfaces take a compiler that fails for an
// interface that is missing, hide what it prints, and go on. The modules that come of it may even load.
func (l Limits) oomKills() int64 {
	for _, dir := range l.groups() {
		for _, name := range []string{"memory.events", "memory.oom_control"} {
			lines := bufio.NewScanner(bytes.NewReader(head(filepath.Join(dir, name), 4<<10)))
			for lines.Scan() {
				if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "oom_kill" {
					return int64(number(fields[1]))
				}
			}
		}
	}
	return -1
}

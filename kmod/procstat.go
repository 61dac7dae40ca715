//go:build linux

package kmod

import (
	"bytes"
	"strconv"
)

// ProcStat is what /proc/PID/stat says of a process.
type ProcStat struct {
	Parent int
	Dead   bool   // it has ended, and its parent does not know yet
	Begun  string // when it was started, in ticks since the boot
}

// ParseStat parses such a file. The command's name may contain anything, so the fields are counted after the
// last parenthesis: the state is the third of the line, the start time the 22nd.
func ParseStat(text []byte) (stat ProcStat, ok bool) {
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return ProcStat{}, false
	}
	parent, err := strconv.Atoi(string(f[1]))
	return ProcStat{Parent: parent, Dead: f[0][0] == 'Z' || f[0][0] == 'X', Begun: string(f[19])}, err == nil && parent >= 0
}

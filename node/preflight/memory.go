package preflight

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

func parent(dir string) string { return filepath.Dir(filepath.Clean(dir)) }

// freeMemory returns how much memory a compile may use: the available memory of the node or the rest of the
// container's memory cgroup, whichever is less.
func (in *Input) freeMemory() (bytes uint64, what string, found bool) {
	bytes, what = math.MaxUint64, "on the node"
	for line := range strings.Lines(value(in.Proc, "meminfo")) {
		name, v, _ := strings.Cut(line, ":")
		kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 54)
		if name == "MemAvailable" && err == nil {
			bytes, found = kb<<10, true
		}
	}
	for _, dir := range in.memoryGroups() {
		limit, err := strconv.ParseUint(first(dir, "memory.max", "memory.limit_in_bytes"), 10, 64)
		if err != nil || limit > 1<<60 { // "max", or the value that version 1 uses for it
			continue
		}
		used, err := strconv.ParseUint(first(dir, "memory.current", "memory.usage_in_bytes"), 10, 64)
		if err != nil {
			used = 0
		}
		if left := limit - min(used, limit); left < bytes {
			bytes, what, found = left, "of the container's limit of "+size(limit), true
		}
	}
	return bytes, what, found
}

// memoryGroups returns the folders of the memory cgroups that apply to this process, its own first. A
// container with the host's /sys sees the whole tree and finds its own cgroup in /proc/self/cgroup.
func (in *Input) memoryGroups() (dirs []string) {
	for line := range strings.Lines(value(in.Proc, "self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] != "" && fields[1] != "memory" {
			continue
		}
		base := filepath.Join(in.Sys, "fs/cgroup", fields[1])
		for path := filepath.Clean("/" + fields[2]); path != "/"; path = filepath.Dir(path) {
			dirs = append(dirs, filepath.Join(base, path))
		}
	}
	return append(dirs, filepath.Join(in.Sys, "fs/cgroup"), filepath.Join(in.Sys, "fs/cgroup/memory"))
}

// first returns the content of the first of some files that is not empty.
func first(dir string, names ...string) string {
	for _, name := range names {
		if v := value(dir, name); v != "" {
			return v
		}
	}
	return ""
}

// size formats a number of bytes for people.
func size(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

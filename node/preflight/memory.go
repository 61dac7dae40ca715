package preflight

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

func parent(dir string) string { return filepath.Dir(filepath.Clean(dir)) }

// freeMemory is what a compile may take: what the node has to give and what the container's memory cgroup leaves, the smaller.
func (in *Input) freeMemory() (bytes uint64, what string, found bool) {
	bytes, what = math.MaxUint64, "on the node"
	for line := range strings.Lines(value(in.Proc, "meminfo")) {
		name, v, _ := strings.Cut(line, ":")
		kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 54)
		if name == "MemAvailable" && err == nil {
			bytes, found = kb<<10, true
		}
	}
	for _, files := range [][2]string{
		{"memory.max", "memory.current"},                                 // version 2
		{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}, // version 1
	} {
		dir := filepath.Join(in.Sys, "fs/cgroup")
		limit, err := strconv.ParseUint(value(dir, files[0]), 10, 64)
		if err != nil || limit > 1<<60 { // "max", and what version 1 has for it
			continue
		}
		used, err := strconv.ParseUint(value(dir, files[1]), 10, 64)
		if err != nil {
			used = 0
		}
		if left := limit - min(used, limit); left < bytes {
			bytes, what, found = left, "of the container's limit of "+size(limit), true
		}
	}
	return bytes, what, found
}

// size is a number of bytes for people.
func size(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

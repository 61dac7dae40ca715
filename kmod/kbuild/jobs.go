package kbuild

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Measured with 535.261.03 on 6.1 and gcc 12: one compiler takes up to 230 MB, linking nvidia.ko
// takes 90 MB (closed) or 280 MB (open) once, and make, modpost and this program take some tens.
// The rest is reserve for newer drivers and compilers.
const (
	memoryPerJob = 384 << 20
	memoryOnce   = 512 << 20
)

// Limits says where the kernel shows what this container may use; "" is the real place.
type Limits struct {
	Proc   string // /proc
	Cgroup string // /sys/fs/cgroup
	CPUs   int    // processors that this process may run on; 0 asks the kernel
}

// Jobs returns how many compilers may run at the same time, and the reason in words ("the
// container's memory limit of 1536 MiB"). n is at least 1. It is the least of: the number of
// processors; the cgroup's CPU quota; what the cgroup's memory limit and the available memory
// allow; and limit when that is above 0. Both versions of cgroups count: the container's own
// limits, and those above it as far as they are visible.
func Jobs(limit int, l Limits) (n int, why string) {
	cpus := l.CPUs
	if cpus <= 0 {
		cpus = runtime.NumCPU() // respects the affinity mask, and so cpusets
	}
	n = cpus
	why = fmt.Sprintf("%d processors", cpus)
	lower := func(to int, reason string) {
		to = max(to, 1)
		if to < n {
			n = to
			why = reason
		}
	}
	groups := l.groups()
	if quota := cpuQuota(groups); quota > 0 {
		lower(int(math.Ceil(quota)), fmt.Sprintf("the container's limit of %.4g processors", quota))
	}
	if memory, what := l.Memory(); memory > 0 {
		lower(jobsIn(memory), what)
	}
	if limit > 0 {
		lower(limit, fmt.Sprintf("the requested limit of %d jobs", limit))
	}
	return n, why
}

// Memory returns how many bytes a compile may use, and what limits that: the container's memory
// limit, or what is available. It is 0 when the kernel does not say.
func (l Limits) Memory() (bytes int64, what string) {
	bytes = memoryLimit(l.groups())
	if bytes > 0 {
		what = fmt.Sprintf("the container's memory limit of %d MiB", bytes>>20)
	}
	// The kernel has this line since 3.14.
	free, _ := field(small(l.proc(), "meminfo"), "MemAvailable:")
	if free := int64(free) << 10; free > 0 && (bytes == 0 || free < bytes) {
		bytes = free
		what = fmt.Sprintf("%d MiB of memory available", free>>20)
	}
	return bytes, what
}

func jobsIn(memory int64) int { return int((memory - memoryOnce) / memoryPerJob) }

func (l Limits) proc() string { return cmp.Or(l.Proc, "/proc") }

// groups returns the cgroup folders whose limits hold for this process, innermost first.
// /proc/self/cgroup names the groups as the host or the container's namespace sees them, while
// /sys/fs/cgroup may begin at the container's own group: every part of the path that exists counts,
// and the root of each hierarchy too.
func (l Limits) groups() []string {
	top := cmp.Or(l.Cgroup, "/sys/fs/cgroup")
	var all []string
	for line := range strings.SplitSeq(small(l.proc(), "self/cgroup"), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		base := top // the only hierarchy of version 2
		switch fields[1] {
		case "":
			if isDir(filepath.Join(top, "unified")) {
				base = filepath.Join(top, "unified")
			}
		case "memory", "cpu", "cpu,cpuacct", "cpuacct,cpu":
			base = filepath.Join(top, fields[1])
		default:
			continue
		}
		path := filepath.Clean("/" + fields[2])
		for ; path != "/"; path = filepath.Dir(path) {
			all = append(all, base+path)
		}
		all = append(all, base)
	}
	return all
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// cpuQuota returns the smallest quota of the groups, in processors; 0 without a quota.
func cpuQuota(groups []string) (least float64) {
	for _, dir := range groups {
		fields := strings.Fields(small(dir, "cpu.max"))
		if len(fields) != 2 {
			fields = []string{small(dir, "cpu.cfs_quota_us"), small(dir, "cpu.cfs_period_us")}
		}
		quota := number(fields[0])
		period := number(fields[1])
		if quota > 0 && period > 0 && (least == 0 || quota/period < least) {
			least = quota / period
		}
	}
	return least
}

// unlimited is more memory than any machine has: version 1 says "no limit" with a number near 2^63.
const unlimited = 1 << 60

// memoryLimit returns the smallest memory limit of the groups, in bytes; 0 without a limit. Swap
// does not count: a container that swaps is slow but is not killed.
func memoryLimit(groups []string) (least int64) {
	for _, dir := range groups {
		for _, name := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
			if limit := number(small(dir, name)); limit > 0 && limit < unlimited &&
				(least == 0 || int64(limit) < least) {
				least = int64(limit)
			}
		}
	}
	return least
}

// small returns the beginning of a file of the kernel; "" if it cannot be read.
func small(
	dir, name string,
) string {
	return string(bounded.Head(filepath.Join(dir, name), 64<<10))
}

// number returns 0 for "max" and everything else that is not a number.
func number(text string) float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// field returns the number after a word at the beginning of a line; ok is false without that line.
func field(text, word string) (n float64, ok bool) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == word {
			return number(fields[1]), true
		}
	}
	return 0, false
}

// oomKills returns how many processes of this container the kernel has killed for lack of memory;
// -1 when the kernel does not say.
//
// A killed compiler must never go unnoticed: NVIDIA's tests of the kernel's interfaces treat a
// failed compiler as a missing interface, hide its output, and go on. The resulting modules may
// even load.
func (l Limits) oomKills() int64 {
	for _, dir := range l.groups() {
		for _, name := range []string{"memory.events", "memory.oom_control"} {
			if n, ok := field(small(dir, name), "oom_kill"); ok {
				return int64(n)
			}
		}
	}
	return -1
}

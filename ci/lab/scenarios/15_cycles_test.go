package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/require"
)

const cycles = 20

// traces is what cycles may leave on the host, apart from the kernel's log, which the lab itself checks.
type traces struct {
	Mounts, Files, References, Modules, Firmware string // compared for equality
	Groups, Processes, Descriptors               int    // open files of the lab's agent, which is process 1
}

// After many starts and stops in one guest, every fourth with a SIGKILL and an adoption in between, none of
// these has grown: mounts, files, modules and their references, cgroups, processes, open files, the kernel's
// memory.
func Test15Cycles(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	var first traces
	var memory, serving int
	var times []time.Duration
	pod := driver("535")
	// always the same pod, so that kubelet's folder and groups of a pod do not count
	pod.PodUID = "6a2b4f0e-1d35-4c57-9c83-2f8a7be0d915"
	count := cycles
	for i := 1; i <= count; i++ {
		begin := time.Now()
		p := ready(t, g, pod)
		if i%4 == 0 {
			p.Kill()
			p = ready(t, g, pod)
			contains(t, p.Output(), `adopting it`)
		}
		open := number(t, g, fmt.Sprintf("ls /proc/%d/fd | wc -l", statusOf(t, g).PID))
		code, out := p.Stop(time.Minute)
		times = append(times, time.Since(begin).Round(100*time.Millisecond))
		p.Kill()
		if code != 0 {
			t.Fatalf("cycle %d: exit code %d\n%s", i, code, out)
		}
		now := trace(t, g)
		// the count itself can include processes that begin and end; a leak of one a cycle is more
		if now.Processes <= first.Processes+1 {
			now.Processes = first.Processes
		}
		switch {
		case i == 2: // the first cycle leaves a staged root, and the kernel keeps some memory
			first, memory, serving = now, used(t, g), open
		case i > 2 && now != first:
			t.Fatalf("cycle %d left something\nafter 2:  %+v\nafter %d: %+v", i, first, i, now)
		case i > 2 && open > serving+2:
			t.Fatalf("cycle %d: the serving process has %d open files, it had %d in the second one", i, open, serving)
		}
	}
	grown := used(t, g) - memory
	t.Logf("%d cycles: %v; memory in use grew by %d KiB; %d groups, %d processes, %d open files of the agent, %d of the serving process",
		count, times, grown, first.Groups, first.Processes, first.Descriptors, serving)
	// Runs differ by up to 30 MB; a leak of one module a cycle would be 1200 MB.
	if limit := 100 << 10; grown > limit {
		t.Errorf("memory in use grew by %d KiB in %d cycles, more than %d", grown, count-2, limit)
	}
}

func trace(t *testing.T, g *lab.Guest) traces {
	t.Helper()
	var mounts strings.Builder
	for _, m := range g.Mounts() {
		fmt.Fprintln(&mounts, m.Point, m.Type, m.Root)
	}
	var files []string
	for _, dir := range []string{"/run", "/var/lib", "/dev", "/tmp", "/var/log"} {
		files = append(files, slices.DeleteFunc(g.List(dir), func(line string) bool { return strings.Contains(line, "/var/lib/kubelet/") })...)
	}
	return traces{
		Mounts: mounts.String(), Files: strings.Join(files, "\n"), Modules: strings.Join(g.Modules(), " "),
		References:  g.Sh("cd /sys/module && for m in *; do [ -f $m/refcnt ] && echo $m $(cat $m/refcnt); done; true"),
		Firmware:    g.Sh("cat /sys/module/firmware_class/parameters/path"),
		Groups:      number(t, g, "find /sys/fs/cgroup -type d | wc -l"),
		Processes:   number(t, g, "for p in /proc/[0-9]*; do readlink $p/exe; done | wc -l"), // empty for kernel threads
		Descriptors: number(t, g, `for p in /proc/[0-9]*; do case "$(readlink $p/exe)" in */init|*/agent) ls $p/fd;; esac; done | wc -l`),
	}
}

// used returns the memory in use, in KiB, after the kernel has freed all memory that can be freed.
func used(t *testing.T, g *lab.Guest) int {
	t.Helper()
	return number(t, g, `sync; echo 3 >/proc/sys/vm/drop_caches; awk '/^MemTotal|^MemFree|^Cached|^Buffers/ {sub(":", "", $1); v[$1] = $2} `+
		`END {print v["MemTotal"] - v["MemFree"] - v["Cached"] - v["Buffers"]}' /proc/meminfo`)
}

func number(t *testing.T, g *lab.Guest, script string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(g.Sh(script)))
	require.NoErrorf(t, err, "%s", script)
	return n
}

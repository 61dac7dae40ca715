package scenarios

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
)

// What an instance that only serves may cost a node.
const (
	// KB of the worker (VmRSS): the goal is 15 MB. 10.6 MB on 2026-11-23, of which 5.2 are pages of the
	// program's file: shim.FreeMemory drops those that only the start needed.
	idleResident = 14 << 10
	idleOwn      = 12 << 10 // KB of both processes' private memory together (RssAnon)
	idleMoments  = 12       // at most in so many tenths of a second one of the processes ran, during idleSeconds
	idleSeconds  = 30
)

// An instance that serves costs the node almost nothing: little memory, and it sleeps except for a check
// every few seconds.
func Test17Idle(t *testing.T) {
	g := stage{alone: true, products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	p := ready(t, g, driver("535"))
	worker := childOf(t, g, p.PID)
	g.Sh("sleep 20") // leftovers of the start are cleaned up
	before := map[string]usage{"shim": usageOf(t, g, p.PID), "worker": usageOf(t, g, worker)}
	moments := moments(t, g, p.PID, worker)
	own := 0
	for name, pid := range map[string]int{"shim": p.PID, "worker": worker} {
		u := usageOf(t, g, pid)
		t.Logf("%s: VmRSS %d KB, RssAnon %d KB, %d threads, %d context switches in %d s",
			name, u.resident, u.own, u.threads, u.switches-before[name].switches, idleSeconds)
		if own += u.own; name == "worker" && u.resident > idleResident || own > idleOwn {
			t.Errorf("%s: %d KB of memory, at most %d; %d of their own, at most %d", name, u.resident, idleResident, own, idleOwn)
		}
	}
	if t.Logf("woken at %d moments", moments); moments > idleMoments {
		t.Errorf("woken at %d moments in %d s, at most %d", moments, idleSeconds, idleMoments)
	}
	if info, err := os.Stat("../../../bin/driver-entrypoint-linux-amd64"); err == nil {
		t.Logf("on disk: %.1f MB", float64(info.Size())/1e6)
	}
	stops(t, p, 0)
}

// usage is a process's resources and activity, from /proc. Context switches are counted by thread; those of
// threads that ended are lost.
type usage struct{ resident, own, threads, switches int }

func usageOf(t *testing.T, g *lab.Guest, pid int) usage {
	t.Helper()
	u := usage{}
	text := g.Sh(fmt.Sprintf("cat /proc/%d/status; grep -h ^voluntary /proc/%d/task/*/status | sed s/^/thread_/", pid, pid))
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		number, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			u.resident = number
		case "RssAnon":
			u.own = number
		case "Threads":
			u.threads = number
		case "thread_voluntary_ctxt_switches":
			u.switches += number
		}
	}
	if u.resident == 0 {
		t.Fatalf("no status of process %d:\n%s", pid, text)
	}
	return u
}

// moments counts the tenths of a second in which a process ran: one check causes many context switches.
func moments(t *testing.T, g *lab.Guest, pids ...int) int {
	t.Helper()
	var files strings.Builder
	for _, pid := range pids {
		fmt.Fprintf(&files, " /proc/%d/task/*/status", pid)
	}
	text := g.Sh(fmt.Sprintf(`n=0; last=; end=$(($(date +%%s) + %d))
while [ $(date +%%s) -lt $end ]; do
  now=$(grep -h ^voluntary %s); [ "$now" = "$last" ] || n=$((n + 1)); last=$now; sleep 0.1
done; echo $n`, idleSeconds, files.String()))
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("count moments: %q", text)
	}
	return n - 1 // the first one has no predecessor to compare with
}

// childOf returns the first child of a process.
func childOf(t *testing.T, g *lab.Guest, pid int) int {
	t.Helper()
	text := g.Sh(fmt.Sprintf("grep -l '^PPid:[[:space:]]*%d$' /proc/[0-9]*/status | head -1 | cut -d/ -f3", pid))
	child, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("process %d has no child: %q", pid, text)
	}
	return child
}

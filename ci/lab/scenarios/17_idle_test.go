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
	idleResident = 15 << 10 // KB, worker and shim together, their own memory (RssAnon)
	idleWakeups  = 1.0      // a second, both together
	idleSeconds  = 30
)

// An instance that serves costs the node next to nothing: little memory, and it sleeps but for a look every few seconds.
func Test17Idle(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	p := ready(t, g, driver("535"))
	worker := childOf(t, g, p.PID)
	g.Sh("sleep 20") // what the start left is swept away
	before := map[string]usage{"shim": usageOf(t, g, p.PID), "worker": usageOf(t, g, worker)}
	g.Sh(fmt.Sprintf("sleep %d", idleSeconds))
	t.Log(g.Sh(fmt.Sprintf("cat /sys/kernel/mm/transparent_hugepage/enabled; for p in %d %d; do grep -H ^voluntary /proc/$p/task/*/status; cat /proc/$p/smaps | grep -E '^[0-9a-f]+-|^Anonymous|^AnonHuge' | paste - - - | awk '$(NF-4)>64'; done", p.PID, worker)))
	own, wakeups := 0, 0
	for name, pid := range map[string]int{"shim": p.PID, "worker": worker} {
		u := usageOf(t, g, pid)
		woken := u.switches - before[name].switches
		t.Logf("%s: VmRSS %d KB, RssAnon %d KB, %d threads, %d wake-ups in %d s", name, u.resident, u.own, u.threads, woken, idleSeconds)
		own, wakeups = own+u.own, wakeups+woken
	}
	if own > idleResident {
		t.Errorf("%d KB of memory of their own, at most %d", own, idleResident)
	}
	if perSecond := float64(wakeups) / idleSeconds; perSecond > idleWakeups {
		t.Errorf("%.1f wake-ups a second, at most %.1f", perSecond, idleWakeups)
	}
	if info, err := os.Stat("../../../bin/driver-entrypoint-linux-amd64"); err == nil {
		t.Logf("on disk: %.1f MB", float64(info.Size())/1e6)
	}
	stops(t, p, 0)
}

// usage is what a process has and did, from /proc. Context switches are counted by thread; those of threads that ended are lost.
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

// childOf is the first child of a process.
func childOf(t *testing.T, g *lab.Guest, pid int) int {
	t.Helper()
	text := g.Sh(fmt.Sprintf("grep -l '^PPid:[[:space:]]*%d$' /proc/[0-9]*/status | head -1 | cut -d/ -f3", pid))
	child, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("process %d has no child: %q", pid, text)
	}
	return child
}

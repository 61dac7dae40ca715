package scenarios

import (
	"fmt"
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
	g := stage{alone: true, products: map[string]product{"535": d535}, cached: []product{d535}}.start(t)
	p := ready(t, g, driver("535"))
	shim, worker := p.PID, childOf(t, g, p.PID)
	g.Sh("sleep 20") // leftovers of the start are cleaned up
	kilobytes := func(field string, pid int) int {
		return number(t, g, fmt.Sprintf("awk '/^%s:/ {print $2}' /proc/%d/status", field, pid))
	}
	resident, own := kilobytes("VmRSS", worker), kilobytes("RssAnon", shim)+kilobytes("RssAnon", worker)
	t.Logf("VmRSS of the shim %d KB, of the worker %d KB; RssAnon of both %d KB", kilobytes("VmRSS", shim), resident, own)
	if resident > idleResident || own > idleOwn {
		t.Errorf("%d KB of memory, at most %d; %d of their own, at most %d", resident, idleResident, own, idleOwn)
	}
	// One check causes many context switches, which are counted by thread. The first tenth has no predecessor.
	moments := number(t, g, fmt.Sprintf(`n=-1; last=; end=$(($(date +%%s) + %d))
while [ $(date +%%s) -lt $end ]; do
  now=$(grep -h ^voluntary /proc/%d/task/*/status /proc/%d/task/*/status); [ "$now" = "$last" ] || n=$((n + 1)); last=$now; sleep 0.1
done; echo $n`, idleSeconds, shim, worker))
	if t.Logf("woken at %d moments", moments); moments > idleMoments {
		t.Errorf("woken at %d moments in %d s, at most %d", moments, idleSeconds, idleMoments)
	}
	stops(t, p, 0)
}

// childOf returns the first child of a process.
func childOf(t *testing.T, g *lab.Guest, pid int) int {
	t.Helper()
	return number(t, g, fmt.Sprintf("grep -l '^PPid:[[:space:]]*%d$' /proc/[0-9]*/status | head -1 | cut -d/ -f3", pid))
}

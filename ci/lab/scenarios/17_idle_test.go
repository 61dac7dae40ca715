package scenarios

import (
	"fmt"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// What an instance that only serves may cost a node.
const (
	// KB of the worker (VmRSS): the goal is 15 MB. 10.6 MB on 2026-11-23, of which 5.2 are pages of the
	// program's file: shim.FreeMemory drops those that only the start needed.
	idleResident = 14 << 10
	idleOwn      = 12 << 10 // KB of both processes' private memory together (RssAnon)
	// during idleSeconds: how often the processes began to run, and in how many of a hundred looks they had run
	idleWakings = 15
	idleBusy    = 25
	idleSeconds = 30
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
	// A look every tenth of a second, whether a thread has stopped to run since the last one. A check takes several looks
	// on a busy machine: it is one waking, as many looks in a row are. The first look has no predecessor.
	var wakings, busy, looks int
	counts := g.Sh(fmt.Sprintf(`wakings=-1; busy=-1; looks=0; last=; ran=; end=$(($(date +%%s) + %d))
while [ $(date +%%s) -lt $end ]; do
  now=$(grep -h ^voluntary /proc/%d/task/*/status /proc/%d/task/*/status); looks=$((looks + 1))
  if [ "$now" = "$last" ]; then ran=; else busy=$((busy + 1)); [ "$ran" ] || wakings=$((wakings + 1)); ran=1; fi
  last=$now; sleep 0.1
done; echo $wakings $busy $looks`, idleSeconds, shim, worker))
	_, err := fmt.Sscan(counts, &wakings, &busy, &looks)
	require.NoError(t, err)
	t.Logf("woken %d times in %d s; %d of %d looks found that a thread had run", wakings, idleSeconds, busy, looks)
	if wakings > idleWakings || 100*busy > idleBusy*looks {
		t.Errorf("woken more than %d times, or in more than %d %% of the looks", idleWakings, idleBusy)
	}
	stops(t, p, 0)
}

// childOf returns the first child of a process.
func childOf(t *testing.T, g *lab.Guest, pid int) int {
	t.Helper()
	return number(t, g, fmt.Sprintf("grep -l '^PPid:[[:space:]]*%d$' /proc/[0-9]*/status | head -1 | cut -d/ -f3", pid))
}

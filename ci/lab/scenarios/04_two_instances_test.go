package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
)

const legacyLock = "/run/nvidia/nvidia-driver.pid"

// Two driver pods on one node, as when a DaemonSet is replaced by one of another name. The second pod waits,
// is not ready, and names the pod that it waits for; it ends at once on SIGTERM. Removing the lock's files by
// force does not let another instance in. When the first pod has stopped, the second takes over.
func Test04TwoInstances(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	before := look(g)
	a := ready(t, g, driver("535", "POD_NAME=gpu/driver-a"))
	probes(t, a, 0, 0, 0)
	serving := look(g)

	impatient := g.Start(driver("535", "POD_NAME=gpu/driver-x", "DRIVER_LOCK_TIMEOUT=3s"))
	b := waits(t, g, a, "gpu/driver-b", true)
	contains(t, ends(t, impatient, 10, time.Minute), `locked by pid \d+, pod gpu/driver-a, .*waited 3(\.\d+)?s`)

	asked := time.Now()
	contains(t, stops(t, b, 0), `stopped while waiting for the lock; nothing was touched`)
	if took := time.Since(asked); took > g.Limit(3*time.Second) {
		t.Errorf("an instance that waited took %s to end", took)
	}
	if now := look(g); now != serving {
		t.Errorf("those that waited changed the node\nbefore %+v\nafter  %+v", serving, now)
	}

	b = waits(t, g, a, "gpu/driver-b", true)
	g.Sh("rm -f /run/nvidia/driver-entrypoint.lock " + legacyLock)
	c := waits(t, g, a, "gpu/driver-c", false) // the first instance that finds no files
	a.WaitLine(logtest.LockRecreated+`.*removed the lock file `, time.Minute)
	g.Sh("rm -f /run/nvidia/driver-entrypoint.lock " + legacyLock)
	alone(t, a, b, c)
	usable(t, g)

	stops(t, a, 0)
	next, last := firstReady(g, b, c)
	alone(t, next, last)
	usable(t, g)
	stops(t, next, 0)
	last.WaitLine(logtest.Ready, 3*time.Minute)
	usable(t, g)
	if n := loads(g); n != 3 {
		t.Errorf("the driver was loaded %d times by three instances in turn", n)
	}
	stops(t, last, 0)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
	foreign(t, g)
}

// waits starts one more driver pod beside a holder and requires that it waits, is alive and not ready, and
// names the holder of the node. known: the lock's files exist, which name the holder.
func waits(t *testing.T, g *lab.Guest, holder *lab.Process, pod string, known bool) *lab.Process {
	t.Helper()
	p := g.Start(driver("535", "POD_NAME="+pod))
	p.WaitLine(logtest.LockWait, time.Minute)
	said := probes(t, p, 15, 15, 0)
	if known {
		contains(t, p.Output(), `holder="pid \d+, pod gpu/driver-a`)
		contains(t, said, `not ready: waiting for the node's lock, held by pid \d+, pod gpu/driver-a`)
	}
	if !holder.Running() {
		t.Fatalf("the holder ended:\n%s", holder.Output())
	}
	return p
}

// alone requires that the first is ready and that the others wait, by their output so far and by their
// probes.
func alone(t *testing.T, serving *lab.Process, waiting ...*lab.Process) {
	t.Helper()
	if r := serving.Exec("nvidia-driver", "probe", "ready"); r.Code != 0 {
		t.Errorf("the holder is not ready: %s", r)
	}
	for _, w := range waiting {
		if !w.Running() || strings.Contains(w.Output(), logtest.PhaseFinished+"lock") {
			t.Errorf("%s does not wait:\n%s", w, w.Output())
		}
		if r := w.Exec("nvidia-driver", "probe", "ready"); r.Code != 15 {
			t.Errorf("of one that waits: %s", r)
		}
	}
}

// firstReady returns the one of two instances that takes over, and the other one.
func firstReady(g *lab.Guest, a, b *lab.Process) (first, other *lab.Process) {
	isReady := func(p *lab.Process) bool { return strings.Contains(p.Output(), logtest.Ready) }
	g.Eventually(3*time.Minute, "one of two instances that wait takes over", func() bool { return isReady(a) || isReady(b) })
	if isReady(b) {
		a, b = b, a
	}
	return a, b
}

// foreign shows that NVIDIA's own container and this project's exclude each other: NVIDIA's locks its pid
// file with flock(1), as long as its shell lives.
func foreign(t *testing.T, g *lab.Guest) {
	t.Helper()
	script := func(text string) lab.Container {
		return lab.Container{Image: "535", Name: "nvidia-driver-ctr", Command: []string{"sh", "-c", text},
			Mounts: []lab.Mount{{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true}}}
	}
	theirs := script("exec 3>" + legacyLock + "; flock -n 3 || exit 77; echo $$ >&3; echo holding; sleep 100000")
	n := g.Start(theirs)
	n.WaitLine("^holding$", time.Minute)
	p := g.Start(driver("535"))
	p.WaitLine(fmt.Sprintf(`waiting for the lock path=%s holder="pid %d" `, legacyLock, n.PID), time.Minute)
	probes(t, p, 15, 15, 0)
	if loaded := g.Driver(); len(loaded) > 0 {
		t.Errorf("beside NVIDIA's container %v were loaded", loaded)
	}
	n.Kill()
	p.WaitLine(logtest.Ready, 3*time.Minute)
	ends(t, g.Start(theirs), 77, time.Minute)
	stops(t, p, 0)
	ends(t, g.Start(script("exec 3>"+legacyLock+"; flock -n 3 || exit 77")), 0, time.Minute)
}

package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/status"
)

const workPod = "5f2a7c10-aaaa-bbbb-cccc-000000000001"

// An instance gets SIGTERM while a process on the host and one in a pod use the driver. It names both, waits
// as long as it may and leaves everything intact. The next instance adopts it. When the holders have ended,
// everything is removed.
func Test06InUse(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, cached: []product{d535}}.start(t)
	before := look(g)
	// device files on the host's /dev: the holders can reach them after the container has ended
	busy := func(env ...string) lab.Container {
		c := driver("535", env...)
		c.HostDev = true
		return c
	}
	p := ready(t, g, busy("DRIVER_GRACE=20s")) // for all the commands before it ends
	host, inPod := hold(t, g)
	serving := look(g)
	p.Signal(syscall.SIGTERM)
	p.WaitLine(`driver is in use by `, time.Minute)
	named(t, host, inPod, p.Output())
	if st := statusOf(t, g); st.State != status.Stopping || st.Ready || len(st.Holders) != 2 {
		t.Errorf("while it waits: %+v", st)
	}
	probes(t, p, 15, 15, 0)
	text := p.Exec("nvidia-driver", "status").Output
	named(t, host, inPod, text)
	contains(t, text, `(?m)^state +stopping$`, `(?m)^next +`)
	keep(t, "status.txt", text)
	out := ends(t, p, 0, time.Minute)
	contains(t, out, logtest.LeftInPlace+`Could not unload NVIDIA driver kernel modules, driver is in use by `)
	left(t, g, p, host, inPod, serving)

	p = ready(t, g, busy("DRIVER_GRACE=100s"))
	adopted(t, g, p)
	p.Signal(syscall.SIGTERM)
	p.WaitLine(`driver is in use by `, time.Minute)
	asked := time.Now()
	p.Signal(syscall.SIGTERM)
	ends(t, p, 0, time.Minute)
	if took := time.Since(asked); took > g.Limit(3*time.Second) {
		t.Errorf("after the second SIGTERM it still took %s", took)
	}
	left(t, g, p, host, inPod, serving)

	contains(t, ends(t, g.Start(unloading()), 14, time.Minute), `driver is in use by `)
	left(t, g, p, host, inPod, serving)

	p = ready(t, g, busy("DRIVER_ON_BUSY=fail", "DRIVER_GRACE=0s")) // there is no API server to ask
	adopted(t, g, p)
	asked = time.Now()
	stops(t, p, 14)
	if took := time.Since(asked); took > g.Limit(30*time.Second) {
		t.Errorf("the stop took %s, more than the terminationGracePeriodSeconds of a pod that sets none", took)
	}
	left(t, g, p, host, inPod, serving)
	host.Kill()
	inPod.Kill()
	contains(t, ends(t, g.Start(unloading()), 0, time.Minute), logtest.Unloaded)
	assert.Equalf(t, before, look(g).withoutLock(), "the node")
	freed(t, g, before)
}

// freed: the holders end while an instance waits for them.
func freed(t *testing.T, g *lab.Guest, before snapshot) {
	t.Helper()
	c := driver("535", "DRIVER_GRACE=100s")
	c.HostDev = true
	p := ready(t, g, c)
	host, inPod := hold(t, g)
	r := p.Exec("nvidia-driver", "holders")
	named(t, host, inPod, r.Output)
	if r.Code != 0 || strings.Count(r.Output, "\n") != 2 {
		t.Error(r)
	}
	contains(t, ends(t, g.Start(unloading()), 10, time.Minute), `locked by pid`)
	p.Signal(syscall.SIGTERM)
	p.WaitLine(`driver is in use by `, time.Minute)
	host.Kill()
	inPod.Kill()
	asked := time.Now()
	contains(t, ends(t, p, 0, time.Minute), logtest.Unloaded)
	if took := time.Since(asked); took > g.Limit(10*time.Second) {
		t.Errorf("after the last holder's end it took %s", took)
	}
	assert.Equalf(t, before, look(g).withoutLock(), "the node")
}

// unloading is the command with which an administrator removes a driver that was left: it refuses while an
// instance runs, or while programs use the driver.
func unloading() lab.Container {
	c := driver("535", "DRIVER_LOCK_TIMEOUT=1s", "DRIVER_GRACE=5s")
	c.Command, c.HostDev = []string{"nvidia-driver", "unload"}, true
	return c
}

// hold opens device files on the host, and in a pod that is not related to the driver's.
func hold(t *testing.T, g *lab.Guest) (host, inPod *lab.Process) {
	t.Helper()
	host = g.Hold("/dev/nvidiactl")
	pod := g.Start(lab.Container{Image: "535", Name: "cuda", PodUID: workPod, Command: []string{"sleep", "100000"}, HostDev: true})
	t.Cleanup(pod.Kill)
	return host, pod.Hold("/dev/nvidia-uvm")
}

// named requires that a text names both holders in the way that an administrator needs.
func named(t *testing.T, host, inPod *lab.Process, text string) {
	t.Helper()
	contains(t, text, fmt.Sprintf(`pid %d \(sleep\): /dev/nvidiactl`, host.PID),
		fmt.Sprintf(`pid %d \(sleep\) in container [0-9a-f]{12,64} pod %s: /dev/nvidia-uvm`, inPod.PID, regexp.QuoteMeta(workPod)))
}

// left requires that everything is as it was while the driver served, except that no instance is ready, and
// that every report names the holders.
func left(t *testing.T, g *lab.Guest, p, host, inPod *lab.Process, serving snapshot) {
	t.Helper()
	named(t, host, inPod, p.Output())
	named(t, host, inPod, p.Termination())
	st := statusOf(t, g)
	named(t, host, inPod, st.Reason)
	pids := []int{}
	for _, h := range st.Holders {
		pids = append(pids, h.PID)
	}
	slices.Sort(pids)
	want := []int{host.PID, inPod.PID}
	slices.Sort(want)
	if st.State != status.Detached || st.Ready || st.Up == nil || st.Up.Version != d535.driver || !slices.Equal(pids, want) {
		t.Errorf("left in place: %+v", st)
	}
	now := look(g)
	if now.modules != serving.modules || now.mounts != serving.mounts || now.dev != serving.dev {
		t.Errorf("not left whole\nserving %+v\nleft    %+v", serving, now)
	}
	contains(t, now.run, `driver-status\.json`)
	assert.Equalf(t, false, g.Exists("/run/nvidia/validations/.driver-ctr-ready"), "a marker says that the driver is ready")
	assert.Equalf(t, false, g.Exists(legacyLock), "%s is left", legacyLock)
	readable(t, g)
}

// readable requires that the host can use the driver through the one driver root, after the container has
// ended, too.
func readable(t *testing.T, g *lab.Guest) {
	t.Helper()
	assert.Equalf(t, 1, roots(t, g), "roots are mounted")
	g.Sh(`cd /run/nvidia/driver && ls usr/bin/nvidia-smi && cat usr/lib/x86_64-linux-gnu/libcuda.so.535.261.03 >/dev/null`)
}

func adopted(t *testing.T, g *lab.Guest, p *lab.Process) {
	t.Helper()
	contains(t, p.Output(), logtest.Adopting+`535\.261\.03`)
	assert.Equalf(t, 1, loads(g), "loads of the driver")
	probes(t, p, 0, 0, 0)
}

const legacyLock = "/run/nvidia/nvidia-driver.pid"

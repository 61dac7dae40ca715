package scenarios

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
	"github.com/driver-container/driver-container/node/status"
)

const (
	daemonStatus = "/run/nvidia/validations/.driver-daemons-status"
	standinMode  = "/drivers/standin"
)

// persisting is a pod that runs nvidia-persistenced. It serves its own root, because a copy on the host's
// storage would only cost time here.
func persisting() lab.Container {
	return unstaged(lab.DriverPod("535", "DRIVER_GPU_INIT=warn"))
}

// withStandin returns a guest that has a stand-in for nvidia-persistenced, and the pod that runs it. The real
// one cannot be made to fail, and with the lab's GPU, which does not initialise, it does not hold the driver
// as it does with a real one.
func withStandin(t *testing.T) (*lab.Guest, lab.Container) {
	t.Helper()
	lab.Gate(t)
	dir := t.TempDir()
	require.NoError(t, tool.Build(t.Context(), filepath.Join(dir, "nvidia-persistenced"), "ci/lab/scenarios/standin"))
	disk := lab.TreeDisk(t, dir)
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}},
		edit: func(c *lab.Config) { c.Disks["/standin"] = disk }}.start(t)
	pod := persisting().
		With(lab.Mount{Host: "/standin/nvidia-persistenced", Guest: "/usr/bin/nvidia-persistenced", ReadOnly: true, File: true})
	return g, pod
}

// A daemon that is killed is started again after 1, 2, 4, 8 and 16 s. While it is down, the node is not ready
// and gives the reason in the status, in the operator's marker and to its probe; then the node is ready
// again. It is the real nvidia-persistenced: it starts even if no GPU initialises.
func Test13DaemonKilledFiveTimes(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	before := look(g)
	p := ready(t, g, persisting())
	t.Logf("nvidia-persistenced has open: %s", g.Sh(fmt.Sprintf("ls -l /proc/%d/fd", statusOf(t, g).Daemons[0].PID)))
	for i, pause := range []string{"1s", "2s", "4s", "8s", "16s"} {
		st := statusOf(t, g)
		if len(st.Daemons) != 1 || !st.Daemons[0].Ready || st.Daemons[0].Restarts != i || !st.Ready {
			t.Fatalf("before kill %d: %+v", i+1, st)
		}
		if !g.Exists("/run/nvidia/driver/run/nvidia-persistenced/socket") {
			t.Errorf("before kill %d: the socket does not show in the driver root", i+1)
		}
		killed := time.Now()
		g.Sh("kill -9 " + g.Sh("cat /run/nvidia/driver/run/nvidia-persistenced/nvidia-persistenced.pid"))
		p.WaitLine(logtest.DaemonDown+`nvidia-persistenced pause=`+pause+`: process \d+: `, 20*time.Second)
		if i > 0 { // the first pause is about as long as one query
			wantDown(t, g, `nvidia-persistenced is not running: process \d+: `)
			if r := p.Exec("nvidia-driver", "probe", "ready"); r.Code != 15 {
				t.Errorf("kill %d: the readiness probe says: %s", i+1, r)
			}
		}
		p.WaitLine(logtest.Ready, time.Minute)
		t.Logf("kill %d: ready again after %s", i+1, time.Since(killed).Round(100*time.Millisecond))
		if text := g.Read(daemonStatus); text != "Ready\n" {
			t.Errorf("kill %d: the operator's marker says %q", i+1, text)
		}
	}
	if n := strings.Count(p.Output(), logtest.NotReady+"nvidia-persistenced"); n != 5 {
		t.Errorf("it said %d times that it is not ready, want 5:\n%s", n, p.Output())
	}
	if v, n := driverLoaded(g), roots(g); v != d535.driver || n != 1 {
		t.Errorf("driver %q is loaded, %d roots are mounted", v, n)
	}
	stops(t, p, 0)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}

// wantDown requires a node that is not ready, for this reason.
func wantDown(t *testing.T, g *lab.Guest, reason string) {
	t.Helper()
	var st status.Snapshot
	g.Eventually(20*time.Second, "not ready", func() bool { st = statusOf(t, g); return st.State == status.Degraded })
	contains(t, st.Reason, reason)
	if st.Ready {
		t.Errorf("ready while a daemon is down: %+v", st)
	}
	assert.Equalf(t, "NotReady\n", g.Read(daemonStatus), "the operator's marker says")
}

// A daemon that never starts does not end the container, which would only start again. The node is not ready,
// with the daemon's output as the reason, and becomes ready when the daemon finally starts. SIGTERM stops the
// container as always: when the daemon fails, when it neither starts nor fails, and when it runs and holds
// the driver.
func Test13DaemonNeverStarts(t *testing.T) {
	g, pod := withStandin(t)
	before := look(g)
	g.Write(standinMode, "fails\n", 0)
	p := g.Start(pod)
	p.WaitLine(logtest.NotReady+`nvidia-persistenced is not running: .*it was told to fail`, 2*time.Minute)
	wantDown(t, g, `it was told to fail`)
	g.Eventually(30*time.Second, "three more attempts", func() bool { return statusOf(t, g).Daemons[0].Restarts >= 3 })
	if !p.Running() || driverLoaded(g) != d535.driver || roots(g) != 1 {
		t.Errorf("it did not stay as it was: driver %q, %d roots\n%s", driverLoaded(g), roots(g), p.Output())
	}
	for _, probe := range []struct {
		name string
		code int
	}{{"startup", 15}, {"ready", 15}, {"live", 0}} {
		if r := p.Exec("nvidia-driver", "probe", probe.name); r.Code != probe.code {
			t.Errorf("probe %s: want exit code %d: %s", probe.name, probe.code, r)
		}
	}
	g.Remove(standinMode)
	p.WaitLine(logtest.Ready, time.Minute)
	st := statusOf(t, g)
	if !st.Ready || st.Reason != "" {
		t.Errorf("it starts by now, but: %+v", st)
	}
	assert.Containsf(t, g.Sh(fmt.Sprintf("ls -l /proc/%d/fd", st.Daemons[0].PID)), "/dev/nvidiactl", "the stand-in does not hold the driver")
	stops(t, p, 0)
	p.Kill()

	g.Write(standinMode, "fails\n", 0)
	p = g.Start(pod)
	p.WaitLine(logtest.NotReady+`nvidia-persistenced`, 2*time.Minute)
	stops(t, p, 0)
	p.Kill()

	g.Write(standinMode, "hangs\n", 0)
	p = g.Start(pod)
	g.Eventually(time.Minute, "the start of the daemons", func() bool { return statusOf(t, g).Phase == "daemons" && driverLoaded(g) != "" })
	begin := time.Now()
	p.Signal(syscall.SIGTERM)
	ends(t, p, 0, time.Minute)
	if took := time.Since(begin); took > g.Limit(15*time.Second) {
		t.Errorf("SIGTERM while a daemon hung in its start took %s", took)
	}
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}

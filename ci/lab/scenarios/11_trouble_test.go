package scenarios

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
)

const (
	modulesDir = "/var/lib/nvidia-driver/modules"
	awayDir    = "/var/lib/modules-away"
	scratchDir = "/var/tmp/nvidia-driver/driver-modules"
)

// A compile, with the real make and gcc, ends within two seconds of SIGTERM. However its processes are
// killed, none continues. Files that were written for it are removed, and the next start works.
func Test11MidCompile(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	g.Sh("mv " + modulesDir + " " + awayDir + "; mkdir " + modulesDir)
	before := look(g).withoutKilled()
	pod := withHeaders(g, light("535"))
	pod.Command = []string{"sleep", "100000"} // only the program under test may end the processes that it started
	c := g.Start(pod)
	for _, how := range []struct {
		name   string
		end    func(t *testing.T, p *lab.Process)
		within time.Duration
	}{
		{"SIGTERM", func(t *testing.T, p *lab.Process) { p.Signal(syscall.SIGTERM); ends(t, p, 0, time.Minute) }, 2 * time.Second},
		{"SIGKILL of the worker", func(t *testing.T, p *lab.Process) { g.Sh("kill -9 " + worker(t, g, p)); ends(t, p, 137, time.Minute) }, 4 * time.Second},
		{"SIGKILL of process 1", func(t *testing.T, p *lab.Process) { p.Signal(syscall.SIGKILL); ends(t, p, 137, time.Minute) }, 4 * time.Second},
	} {
		t.Run(how.name, func(t *testing.T) {
			p := c.ExecStart("nvidia-driver", "init", "--accept-license")
			p.WaitLine(logtest.Compiling+`535\.261\.03 .* compiler="gcc 12`, time.Minute)
			g.Eventually(time.Minute, "a compiler at work", func() bool { return strings.Contains(commands(g, c), "cc1") })
			begin := time.Now()
			how.end(t, p)
			ended := time.Since(begin)
			g.Eventually(time.Minute, "the end of every process", func() bool { return commands(g, c) == "sleep" })
			took := time.Since(begin)
			t.Logf("ended after %s, nothing was left after %s", ended.Round(10*time.Millisecond), took.Round(10*time.Millisecond))
			if took > g.Limit(how.within) {
				t.Errorf("it took %s, want at most %s", took, how.within)
			}
			after := look(g).withoutLock()
			if how.name == "SIGTERM" {
				if r := c.Exec("ls", "-A", scratchDir); r.Code != 0 || strings.TrimSpace(r.Output) != "" {
					t.Errorf("left of the compile: %s", r)
				}
			} else {
				after = after.withoutKilled()
			}
			if after != before {
				t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
			}
		})
	}
	c.Kill()
	t.Run("SIGKILL of the container", func(t *testing.T) {
		p := g.Start(withHeaders(g, light("535")))
		p.WaitLine(logtest.Compiling+`535\.261\.03`, time.Minute)
		g.Eventually(time.Minute, "a compiler at work", func() bool { return strings.Contains(commands(g, p), "cc1") })
		p.Kill()
		if after := look(g).withoutKilled(); after != before {
			t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
		}
	})
	g.Sh("rm -rf " + modulesDir + "; mv " + awayDir + " " + modulesDir)
	servesAgain(t, g, light("535"), d535.driver)
}

// commands returns the names of the processes of a container, sorted, each once.
func commands(g *lab.Guest, c *lab.Process) string {
	return g.Sh(`d=$(sed -n s/^0:://p /proc/` + strconv.Itoa(c.PID) + `/cgroup); for p in $(cat /sys/fs/cgroup$d/cgroup.procs); do cat /proc/$p/comm; done 2>/dev/null | sort -u | tr '\n' ' ' | sed 's/ $//'`)
}

// worker returns the process that does the work: the only child of the first one.
func worker(t *testing.T, g *lab.Guest, p *lab.Process) string {
	t.Helper()
	pid := strings.TrimSpace(g.Read("/proc/" + strconv.Itoa(p.PID) + "/task/" + strconv.Itoa(p.PID) + "/children"))
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("children of %s: %q", p, pid)
	}
	return pid
}

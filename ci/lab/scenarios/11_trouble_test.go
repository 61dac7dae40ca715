package scenarios

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/node/status"
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

// hog replaces NVIDIA's script that tests the kernel's interfaces. Like that script, it hides the compiler's
// output and continues when the compiler fails. The compiler needs 1.2 GB for its input.
const hog = `#!/bin/sh
{ printf '#define A "%04000d"\n' 0
p=A; for n in B C D E F; do echo "#define $n $p $p $p $p $p $p $p $p $p $p"; p=$n; done
echo 'const char *s = F;'; } | "$1" -S -o /dev/null -x c - >/dev/null 2>&1
exit 0
`

// The kernel kills a compiler because memory runs out: the compile stops at once, and the message names the
// cause and what to do. The same holds for a compile without room for its files.
func Test11OutOfMemoryAndSpace(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	g.Sh("mv " + modulesDir + " " + awayDir + "; mkdir " + modulesDir)
	g.Write("/lab/conftest.sh", hog, 0o755)
	c := withHeaders(g, light("535")).With(lab.Mount{
		Host: "/lab/conftest.sh", Guest: "/usr/src/nvidia-535.261.03/kernel/conftest.sh", ReadOnly: true, File: true})
	c.MemoryMB = 256
	fails(t, g, c, 12, 5*time.Minute, `warning: preflight: memory: .* \(of the container.s limit of 256 MiB\)`, `jobs=1 limit="the container's memory limit of 256 MiB"`,
		`compile driver 535\.261\.03 for kernel 6\.1.*: make failed: the kernel killed \d+ of its programs for want of memory`,
		`out of memory: raise the container's memory limit above 1 GiB; whole output in`)
	contains(t, g.Dmesg(), `Memory cgroup out of memory: Killed process \d+ \(cc1\)`)
	c = withHeaders(g, light("535"))
	c.UpperMB = 48 // limits the disk on which a compile works
	fails(t, g, c, 11, 30*time.Second, `disk: \d+ MiB are free in /var/lib/nvidia-driver, 1\.0 GiB are needed\. Free space there`)
	c.Env = append(c.Env, "DRIVER_SKIP_PREFLIGHT=disk")
	fails(t, g, c, 1, 3*time.Minute, `no space left on device`, `copy the driver's sources from /usr/src/nvidia-535\.261\.03/kernel to /var/tmp/nvidia-driver`)
	g.Sh("rm -rf " + modulesDir + "; mv " + awayDir + " " + modulesDir)
	servesAgain(t, g, light("535"), d535.driver)
}

// fullDisk: the disk has no room for the root of 535 while 470 serves. What serves stays, and nothing
// incomplete is left. It is part of Test07Upgrade, whose guest has what it needs.
func fullDisk(t *testing.T, g *lab.Guest) {
	roots := g.Sh("ls -A /var/lib/nvidia-driver/roots")
	// the files of the killed instance are not part of this test
	g.Sh("rm -f /run/nvidia/nvidia-driver.pid /run/nvidia/validations/..driver*")
	g.Sh("fallocate -l $(df -k /var/lib | awk 'END{print ($4-200*1024)*1024}') /var/lib/fill")
	out := fails(t, g, driver("535"), 1, 3*time.Minute, `stage the driver root in /var/lib/nvidia-driver/roots: .*no space left on device: make room`)
	if strings.Contains(out, "unloading") {
		t.Error("the old driver was unloaded")
	}
	serving(t, g, d470.driver)
	if now := g.Sh("ls -A /var/lib/nvidia-driver/roots"); now != roots {
		t.Errorf("staged roots %q, before %q", now, roots)
	}
	g.Remove("/var/lib/fill")
}

// A byte of the cached module has changed: the entry is moved aside and never loaded. If nothing can be
// compiled, the start says so; otherwise the modules are compiled again. A compile takes half an hour here,
// so the test's make copies the result of an earlier one; everything else is real.
func Test11CacheCorrupted(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	entry := g.Sh("ls " + modulesDir)
	corrupt := func() {
		g.Sh("cd " + modulesDir + "/" + entry + " && printf x | dd of=nvidia.ko bs=1 seek=1000000 conv=notrunc 2>/dev/null")
	}
	corrupt()
	fails(t, g, light("535", "DRIVER_NO_COMPILE=true"), 11, 30*time.Second,
		`warning: .*cached modules in .*/\.bad-`+entry+`-0 are damaged: nvidia\.ko has changed since it was stored`,
		`there are no modules for kernel .*, and they cannot be compiled here`)
	assert.Equalf(t, ".bad-"+entry+"-0", g.Sh("ls -A "+modulesDir), "the cache has")
	g.Write("/lab/make", `#!/bin/sh
case "$2" in */driver-modules/source) cp /seed/*/*.ko "$2" ;; *) echo "unexpected: $*"; exit 1 ;; esac
`, 0o755)
	c := withHeaders(g, light("535")).With(lab.Mount{Host: "/lab/make", Guest: "/usr/bin/make", File: true, ReadOnly: true}).
		With(lab.Mount{Host: "/seed/a", Guest: "/seed", ReadOnly: true})
	p := ready(t, g, c)
	serving(t, g, d535.driver)
	if st := statusOf(t, g); st.Up.Source != "compiled" || st.State != status.Serving {
		t.Errorf("modules are from %q, state %s", st.Up.Source, st.State)
	}
	stops(t, p, 0)
	// The names end differently: a set that was compiled on the node itself identifies the kernel by its build
	// id.
	if got := g.Sh("ls -A " + modulesDir); strings.ContainsAny(got, "\n") || got[:strings.LastIndex(got, "-")] != entry[:strings.LastIndex(entry, "-")] {
		t.Errorf("the cache has %q, want only the recompiled set", got)
	}
	servesAgain(t, g, light("535", "DRIVER_NO_COMPILE=true"), d535.driver)
}

// A second SIGTERM ends the wait of a stop at once: the driver is left to its holder, and the next instance
// adopts it.
func Test11TermInStop(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	p := ready(t, g, light("535", "DRIVER_ON_BUSY=wait"))
	holder := g.Hold("/run/nvidia/driver/dev/nvidia-uvm")
	p.Signal(syscall.SIGTERM)
	p.WaitLine(`driver is in use by pid `+strconv.Itoa(holder.PID), time.Minute)
	if st := statusOf(t, g); st.State != status.Stopping || len(st.Holders) != 1 || !p.Running() {
		t.Errorf("status %s, holders %v; want it to wait", st.State, st.Holders)
	}
	begin := time.Now()
	p.Signal(syscall.SIGTERM)
	ends(t, p, 0, time.Minute)
	t.Logf("left %s after the second signal", time.Since(begin).Round(10*time.Millisecond))
	if took := time.Since(begin); took > g.Limit(2*time.Second) {
		t.Errorf("it went on for %s after the second signal", took)
	}
	serving(t, g, d535.driver)
	if st := statusOf(t, g); st.State != status.Detached {
		t.Errorf("status %s, want detached", st.State)
	}
	p = ready(t, g, light("535"))
	contains(t, p.Output(), `adopting it`)
	holder.Kill()
	stops(t, p, 0)
	if v := driverLoaded(g); v != "" {
		t.Errorf("driver %s is still loaded", v)
	}
}

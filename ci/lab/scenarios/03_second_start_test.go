package scenarios

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
)

// The second start on a node compiles nothing and copies nothing. It reads each module twice: for its
// checksum, and when the kernel loads it. What it reads and writes does not depend on other work of the
// emulating machine. What the start takes beside insmod is measured for ci/bench/run, in the emulated guest.
func Test03SecondStart(t *testing.T) {
	g := stage{alone: true, products: map[string]product{"535": d535}, cached: []product{d535}}.start(t)
	first := ready(t, g, driver("535"))
	contains(t, first.Output(), logtest.Staged+`/var/lib/nvidia-driver/roots/535\.261\.03-`)
	stops(t, first, 0)

	kept := func() string { // the folder of a set has the time of its last use
		return g.Sh("cd /var/lib/nvidia-driver; find modules -type f | sort | xargs stat -c '%n %i %s %y'; stat -c '%n %i %y' roots/*")
	}
	cached := kept()
	modules := number(t, g, "cat /var/lib/nvidia-driver/modules/535*/*.ko | wc -c")
	var measured strings.Builder
	for range 3 * require.Value(strconv.Atoi(cmp.Or(os.Getenv("RUNS"), "1")))(t) {
		fmt.Fprintf(&measured, "boot\tstart\t%.3f\n", (secondStart(t, g, modules) - insmod(t, g, cachedModules)).Seconds())
	}
	t.Log("the own part of the starts\n" + measured.String())
	keep(t, "start.tsv", measured.String())
	assert.Equalf(t, cached, kept(), "cache and staged roots")
}

// The first start on a node with a baked folder compiles nothing and copies nothing. The folder has a second
// driver, for machines with older GPUs: there it serves in place of the image's, with its own programs and
// libraries, also after a restart, and without any image on a machine that is no node.
func Test03Baked(t *testing.T) {
	lab.Gate(t)
	kernel, state := lab.Kernel(t, "debian12"), t.TempDir()
	for _, p := range []product{d470, d535} {
		tool.Must(t, "mkdir", "-p", filepath.Join(state, "modules"))
		tool.Must(t, "cp", "-a", p.modules(t, kernel)+"/.", filepath.Join(state, "modules")) // another test may have compiled them
		contains(t, p.bake(t, kernel, state), logtest.Staged, `baked driver `+p.driver+` for 1 kernels`)
	}
	node := func(model gpu.Model) *lab.Guest {
		g := stage{alone: true, gpus: []gpu.Model{model}, products: map[string]product{"535": d535},
			edit: func(c *lab.Config) { c.Disks["/seed/baked"] = lab.TreeDisk(t, state) }}.start(t)
		g.Sh("mkdir -p /var/lib/nvidia-driver && cp -a /seed/baked/. /var/lib/nvidia-driver/")
		return g
	}
	g := node(gpu.T4)
	loading := insmod(t, g, "/seed/baked/modules/535*")
	p := ready(t, g, driver("535"))
	if out := p.Output(); strings.Contains(out, "compiling") || strings.Contains(out, "driver root staged") {
		t.Errorf("it compiled or copied:\n%s", out)
	}
	keep(t, "baked.tsv", fmt.Sprintf("boot\tstart-baked\t%.3f\n", (since(t, g, p, logtest.Ready)-loading).Seconds()))
	serving(t, g, d535.driver)
	assert.Equalf(t, "", statusOf(t, g).Choice, "why another driver serves")
	stops(t, p, 0)
	t.Run("an old GPU", func(t *testing.T) { servesBaked(t, node(gpu.K80)) })
}

// servesBaked starts the image of 535 on a node whose GPU only 470 drives.
func servesBaked(t *testing.T, g *lab.Guest) {
	t.Helper()
	why := `baked driver chosen driver=470\.256\.02: .*535\.261\.03 no longer supports \S+ \(Tesla K80, 10de:102d\): the last branch that does is 470`
	clean := look(g).withoutLock()
	for range 2 { // what the first start leaves is found by the second
		p := ready(t, g, driver("535"))
		contains(t, p.Output(), why)
		if out := p.Output(); strings.Contains(out, "compiling") || strings.Contains(out, "driver root staged") || strings.Contains(out, "no effect here") {
			t.Errorf("it compiled or copied, or has settings of the image:\n%s", out)
		}
		serving(t, g, d470.driver)
		st := statusOf(t, g)
		if st.Wanted != d470.driver || st.Up.Version != d470.driver || !strings.Contains(st.Choice, "no longer supports") {
			t.Errorf("%+v", st)
		}
		for _, probe := range []string{"startup", "ready", "live"} {
			assert.Equalf(t, 0, p.Exec("nvidia-driver", "probe", probe).Code, "probe %s", probe)
		}
		contains(t, p.Exec("nvidia-driver", "status").Output, `choice +driver 470`)
		contains(t, p.Exec("sh", "-c", "ls /usr/lib/x86_64-linux-gnu/libcuda.so.4*; grep -c nvidia /proc/self/mountinfo").Output, `libcuda\.so\.470`)
		stops(t, p, 0)
		assert.Equalf(t, clean, look(g).withoutLock(), "what a stop leaves")
	}
	g.Sh("cp /var/lib/nvidia-driver/roots/535*/usr/local/bin/driver-entrypoint /usr/bin/nvidia-driver")
	p := g.Process("env", "DRIVER_GPU_INIT=warn", "DRIVER_PERSISTENCE=false", "nvidia-driver", "init", "--accept-license")
	p.WaitLine(logtest.Ready, 3*time.Minute)
	serving(t, g, d470.driver)
	contains(t, g.Sh("nvidia-driver status"), `choice +driver 470.* the machine has no driver image`)
	stops(t, p, 0)
	assert.Equalf(t, clean, look(g).withoutLock(), "what a stop on the machine leaves")
}

// bake runs the image's own `nvidia-driver bake` for a kernel.
func (p product) bake(t *testing.T, kernel *lab.HostKernel, state string) string {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	out, err := p.run(t, kernel, state, "bake", "--into", "/var/lib/nvidia-driver", "--kernel", kernel.Release, "--kernel-module-type", closed, "--fetch-headers=false")
	require.NoErrorf(t, err, "bake: %s", out)
	return string(out)
}

// secondStart starts and stops the driver, whose modules have this many bytes, and returns how long it took
// to become ready.
func secondStart(t *testing.T, g *lab.Guest, modules int) time.Duration {
	t.Helper()
	p := ready(t, g, driver("535"))
	took := since(t, g, p, logtest.Ready).Round(time.Millisecond)
	t.Logf("ready after %s, its first line after %s; phases %v", took, since(t, g, p, "accepting its license"), phasesOf(t, g, p))
	// The modules are read when the set is looked for, when the file that the kernel gets is compared with its
	// digest, and by the kernel. Measured: 52 MB beside them, 64 KB written. A fourth reading of nvidia.ko would
	// be 65 MB more, a copy of the driver root 800 MB.
	const readings, more, written = 3, 60 << 20, 4 << 20
	counts := fmt.Sprintf("/proc/%d/io", childOf(t, g, p.PID))
	read, wrote := number(t, g, "sed -n 's/^rchar: //p' "+counts), number(t, g, "sed -n 's/^wchar: //p' "+counts)
	if read < modules || read > readings*modules+more || wrote > written {
		t.Errorf("read %d bytes and wrote %d, want at most %d and %d, and at least the modules", read, wrote, readings*modules+more, written)
	}
	if up := statusOf(t, g).Up; up == nil || up.Source != "cache" {
		t.Errorf("the modules did not come from the cache: %+v", up)
	}
	if out := p.Output(); strings.Contains(out, "compil") || strings.Contains(out, "driver root staged") {
		t.Errorf("it compiled or copied:\n%s", out)
	}
	assert.Equalf(t, "", g.Sh("ls /var/lib/nvidia-driver/log 2>/dev/null || true"), "a compile left its log")
	stops(t, p, 0)
	return took
}

// cachedModules is the folder of the modules in the node's cache, as a pattern of the shell.
const cachedModules = "/var/lib/nvidia-driver/modules/535*"

// insmod loads the files of a folder, after the modules they need, without any of this project's programs.
func insmod(t *testing.T, g *lab.Guest, dir string) time.Duration {
	t.Helper()
	begin, end := twoTimes(t, g, "cd "+dir+`
		now() { cut -d' ' -f1 /proc/uptime; }
		before=$(cut -d' ' -f1 /proc/modules)
		needs=$(for m in drm video ipmi_devintf; do modprobe -D $m; done | cut -d' ' -f2)
		begin=$(now)
		for m in $needs; do insmod $m; done 2>/dev/null
		for m in nvidia nvidia-uvm nvidia-modeset; do insmod ./$m.ko || exit 1; done
		end=$(now)
		for m in $(cut -d' ' -f1 /proc/modules); do # the newest is the first
			case " $(echo $before) " in *" $m "*) ;; *) rmmod $m || exit 1 ;; esac
		done
		echo $begin $end`)
	return (end - begin).Round(10 * time.Millisecond)
}

// twoTimes runs a script that prints two readings of /proc/uptime.
func twoTimes(t *testing.T, g *lab.Guest, script string) (begin, end time.Duration) {
	t.Helper()
	out := g.Sh(script)
	var from, to float64
	_, err := fmt.Sscan(out, &from, &to)
	require.NoErrorf(t, err, "%s prints %q", script, out)
	return time.Duration(from * float64(time.Second)), time.Duration(to * float64(time.Second))
}

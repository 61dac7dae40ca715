package scenarios

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// A driver container that is killed leaves modules and mounts. The next one adopts what it would have made
// the same way, without disturbing programs that use it. It loads modules that are missing, as the GPU
// Operator's driver manager leaves them when a program uses the driver, and removes what is in the way, until
// exactly one root is mounted.
func Test05Killed(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, cached: []product{d535}}.start(t)
	before := look(g)
	p := ready(t, g, driver("535"))
	work := g.Hold("/run/nvidia/driver/dev/nvidiactl") // a workload that lives through the whole test
	live := kernelView(g)

	p.Kill()
	g.Sh("mount -t tmpfs stacked /run/nvidia/driver && mount -t proc more /run/nvidia/driver")
	p = adopts(t, g, driver("535"), live)
	contains(t, p.Output(), `\d driver roots are stacked on /run/nvidia/driver; one root takes their place`)

	p.Signal(syscall.SIGKILL) // only process 1, as when memory runs out: the rest of the container ends with it
	p.Wait(time.Minute)
	g.Sh("mount --bind /etc /run/nvidia/driver")
	p.Kill()
	p = completes(t, g, driver("535"), "nvidia_modeset")
	assert.Equalf(t, true, work.Running(), "the workload runs")
	work.Kill()
	stops(t, p, 0)
	assert.Equalf(t, before, look(g).withoutLock(), "the node")

	imageRoot(t, g)
	notOurs(t, g)
}

// imageRoot: if the host provides no storage, the root is the container's own. A mount that outlives the
// container no longer has an upper layer: the next container replaces it.
func imageRoot(t *testing.T, g *lab.Guest) {
	t.Helper()
	// Without storage there is no cache either: the image contains its modules.
	c := driver("535").Without("/var/lib/nvidia-driver").With(guest.Mount{
		Host: "/var/lib/nvidia-driver/modules", Guest: "/usr/share/nvidia-driver/modules", ReadOnly: true})
	p := ready(t, g, c)
	serving(t, g, d535.driver)
	live := kernelView(g)
	p.Kill()
	g.Sh("mount -t tmpfs stacked /run/nvidia/driver")
	p = adopts(t, g, c, live)
	p.Kill()
	p = completes(t, g, c, "nvidia_uvm")
	contains(t, p.Output(), `the driver root is served again: `)
	stops(t, p, 0)
}

// notOurs: modules that were loaded with other parameters, or by another program, are replaced and
// not adopted.
func notOurs(t *testing.T, g *lab.Guest) {
	t.Helper()
	p := ready(t, g, driver("535"))
	n := loads(g)
	p.Kill()
	g.Write("/drivers/nvidia.conf", "NVreg_EnableStreamMemOPs=1\n", 0)
	p = ready(t, g, driver("535"))
	contains(t, p.Output(), logtest.ToBeReplaced+`nvidia was loaded with parameters \[\], wanted are \["NVreg_EnableStreamMemOPs=1"\]`)
	contains(t, g.Read("/proc/driver/nvidia/params"), `(?m)^EnableStreamMemOPs: 1$`)
	serving(t, g, d535.driver)

	p.Kill()
	path := "/run/nvidia/driver-status.json"
	st := statusOf(t, g)
	st.Up.Modules[0].SrcVersion = "0123456789ABCDEF01234567" // as if the dead container had loaded modules of another build
	text := require.Value(json.Marshal(st))(t)
	g.Write(path, string(text), 0)
	p = ready(t, g, driver("535"))
	contains(t, p.Output(), `has to be replaced: nvidia was loaded by another program \(srcversion [0-9A-F]+, ours was 0123456789ABCDEF01234567\)`)
	serving(t, g, d535.driver)
	assert.Equalf(t, n+2, loads(g), "loads: each of the two had to be replaced")
	stops(t, p, 0)
}

// kernelView returns what changes when a module of the driver is loaded again.
func kernelView(g *lab.Guest) string {
	return g.Sh(`cd /sys/module; for m in nvidia nvidia_uvm nvidia_modeset; do
		echo $m $(cat $m/initstate $m/srcversion $m/sections/.text); done; dmesg | grep -c 'loading NVIDIA UNIX'`)
}

// adopts starts a container that must keep the modules and serve one root.
func adopts(t *testing.T, g *lab.Guest, c lab.Container, live string) *lab.Process {
	t.Helper()
	p := ready(t, g, c)
	contains(t, p.Output(), logtest.Adopting+`535\.261\.03`)
	assert.Equalf(t, live, kernelView(g), "the modules were loaded again")
	whole(t, g, p)
	return p
}

// completes unloads a module and starts a container that must load that module and keep the others.
func completes(t *testing.T, g *lab.Guest, c lab.Container, module string) *lab.Process {
	t.Helper()
	others := func() (lines []string) {
		for line := range strings.Lines(kernelView(g)) {
			if !strings.HasPrefix(line, module+" ") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	before := others()
	g.Sh("rmmod " + module)
	p := ready(t, g, c)
	contains(t, p.Output(), logtest.Completing+`535\.261\.03: `+module+` is not loaded\n`)
	assert.Samef(t, before, others(), "other modules were loaded again")
	if st := statusOf(t, g); st.Up == nil || len(st.Up.Modules) != 3 {
		t.Errorf("the record of the modules: %+v", st.Up)
	}
	whole(t, g, p)
	return p
}

// whole requires that the driver serves, and no mount twice.
func whole(t *testing.T, g *lab.Guest, p *lab.Process) {
	t.Helper()
	serving(t, g, d535.driver)
	probes(t, p, 0, 0, 0)
	assert.Equalf(t, "", g.Sh("cut -d' ' -f5 /proc/1/mountinfo | grep ^/run/nvidia/driver | sort | uniq -d"), "mounted more than once")
}

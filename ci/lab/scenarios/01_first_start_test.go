package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// standIn replaces make, and only make. A whole compile takes more than ten minutes in a guest, which is
// emulated; Test01Image of ci/e2e does it. standIn checks its arguments and environment as make would use them.
// It compiles a file of its own, to prove that compiler and headers work together in the container. It prints
// the output that make printed when the same image compiled these modules natively, and leaves the modules
// where make leaves them. The rest is real: the search for headers and compiler, the copy of the sources, the
// log, strip, the checks, and all later steps.
const standIn = `#!/bin/sh
set -e
[ "$1" = -C ]
cd "$2"
for word; do
	case $word in *=*) eval "${word%%=*}='${word#*=}'" ;; esac
done
test -f Makefile
test -f nvidia/nvidia.Kbuild
test -f "$SYSSRC/include/linux/module.h"
test -f "$SYSOUT/Module.symvers"
echo '#include <generated/utsrelease.h>
const char release[] = "=" UTS_RELEASE "=";' >probe.c
"$CC" $KCFLAGS -I"$SYSOUT/include" -c -o probe.o probe.c
grep -q "=$KERNEL_UNAME=" probe.o
half=0
while IFS= read -r line; do
	echo "$line"
	half=$((half + 1))
	[ $half != 300 ] || sleep 11 # progress is told every ten seconds
done </opt/made/log
for m in $NV_KERNEL_MODULES; do
	cp /opt/made/*/$m.ko .
done
`

// The first start on a node: nothing is cached, the host has the headers. The modules are compiled (see
// standIn), loaded, kept, and served; log and status say how long each phase took.
func Test01FirstStart(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) { made(t, c) }}.start(t)
	g.Write("/opt/make", standIn, 0o755)
	before := look(g)
	toolchain(t, g)

	p := g.Start(driver("535").With(guest.Mount{Host: "/opt/make", Guest: "/usr/bin/make", File: true}).
		With(guest.Mount{Host: "/opt/made", Guest: "/opt/made", ReadOnly: true}))
	p.WaitLine(logtest.Progress+`\d+s step=`, 10*time.Minute)
	probes(t, p, 15, 15, 0)
	if st := statusOf(t, g); st.Phase != "modules" || st.State != "starting" {
		t.Errorf("while it compiles: %+v", st)
	}
	p.WaitLine(logtest.Ready+`535\.261\.03 flavour=proprietary kernel=`, 10*time.Minute)
	contains(t, p.Output(), logtest.Compiling+`535\.261\.03 flavour=proprietary kernel=\S+ compiler="gcc 12\.2\.0" jobs=[12] limit=.* path=/var/lib/`)
	took := phasesOf(t, g, p)
	st := statusOf(t, g)
	t.Logf("from the container's start to ready: %s; phases: %v", since(t, g, p, logtest.Ready).Round(10*time.Millisecond), took)
	if st.Up == nil || st.Up.Source != "compiled" || !st.Ready || took["modules"] < 11*time.Second {
		t.Errorf("status %+v", st)
	}
	probes(t, p, 0, 0, 0)
	serving(t, g, d535.driver)
	kept(t, g)
	assert.Equalf(t, "", p.Exec("find", "/var/tmp", "-name", "*.ko").Output, "the scratch folder still has")
	stops(t, p, 0)
	assert.Equalf(t, before, look(g).withoutLock(), "the node")
}

// made adds a disk with the modules that were compiled natively, and with make's output.
func made(t *testing.T, c *lab.Config) {
	t.Helper()
	dir := d535.modules(t, c.Kernel)
	tool.Must(t, "cp", d535.compileLog(t, c.Kernel), filepath.Join(dir, "log"))
	c.Disks["/opt/made"] = lab.TreeDisk(t, dir)
}

// compileLog returns the file with make's output of a native compile. Modules from a thin image have none:
// they are compiled once more.
func (p product) compileLog(t *testing.T, kernel *lab.HostKernel) string {
	t.Helper()
	name := fmt.Sprintf("compile-%s-%s-%s.log", p.driver, closed, kernel.Release)
	dir := filepath.Join(lab.CacheDir(t), "state-"+kernel.Release, "log")
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	state := t.TempDir()
	if out, err := p.compile(t, kernel, state); err != nil {
		t.Fatalf("compile %s for %s: %v\n%s", p.tag(), kernel.Release, err, out)
	}
	tool.Must(t, "mkdir", "-p", dir)
	tool.Must(t, "cp", filepath.Join(state, "log", name), file)
	return file
}

// toolchain requires that preflight finds the headers in both ways: through the host's processes, and where
// the host's folders are mounted.
func toolchain(t *testing.T, g *lab.Guest) {
	t.Helper()
	release := g.Sh("uname -r")
	check := driver("535")
	check.Command = []string{"nvidia-driver", "preflight"}
	contains(t, ends(t, g.Start(check), 0, time.Minute), `headers +\S+ +.*host: /proc/1/root/usr/src/linux-headers-`+release)
	contains(t, ends(t, g.Start(withHeaders(g, check)), 0, time.Minute), `headers +\S+ +.*image: /usr/src/linux-headers-`+release)
}

// kept requires that the cache on the host has the modules that are loaded, and that the whole output of the
// compile exists.
func kept(t *testing.T, g *lab.Guest) {
	t.Helper()
	files := strings.Fields(g.Sh("cd /var/lib/nvidia-driver/modules && ls -d */*"))
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	want := []string{"manifest.json", "nvidia-drm.ko", "nvidia-modeset.ko", "nvidia-peermem.ko", "nvidia-uvm.ko", "nvidia.ko"}
	assert.Samef(t, want, names, "the cache has %v", files)
	assert.Equalf(t, true, g.Sh("cat /var/lib/nvidia-driver/log/compile-535.261.03-proprietary-*.log") == strings.TrimSuffix(g.Read("/opt/made/log"), "\n"), "the log is the whole output of the compile")
	st := statusOf(t, g)
	for _, m := range st.Up.Modules {
		if live := strings.TrimSpace(g.Read("/sys/module/" + m.Name + "/srcversion")); live != m.SrcVersion || !strings.HasPrefix(m.File, "/var/lib/nvidia-driver/modules/535") {
			t.Errorf("%s: srcversion %s is live, status has %+v", m.Name, live, m)
		}
	}
}

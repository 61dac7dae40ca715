package drivertoolkit

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/modules"
)

// withCompanions puts the sources of the companions into the driver's image, and returns the job that asks
// for them.
func (p *pod) withCompanions() func(*Job) {
	p.t.Helper()
	p.info.Companions = kbuildtest.Companions(p.t, p.image, filepath.Join(p.toolkit, "bin/gcc-12"))
	return func(j *Job) {
		j.Companions = driverinfo.Companions()
		accepts := j.Fits
		j.Fits = func(k kbuild.Key) bool {
			return accepts(k) && modules.Covers(k, modules.Companions(p.info, j.Flavour, j.Companions))
		}
	}
}

// TestCompanions: companions are compiled in the toolkit container, against the driver's modules, and handed
// over with them. A driver container that asks for them later does not take the modules without them.
func TestCompanions(t *testing.T) {
	t.Parallel()
	count, script := counted(t, "cp KOS/*.ko .")
	p := newPod(t, kbuildtest.Kernel, script)
	asks := p.withCompanions()
	p.run()
	require.Value(p.compile(nil))(t)
	set := require.Value(p.compile(asks))(t)
	for _, name := range driverinfo.Companions() {
		f, ok := set.File(name)
		if !ok || f.Info.Version != kbuildtest.CompanionVersion || !strings.HasPrefix(f.Path, set.Dir+"/") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	assert.Equalf(t, 2, len(set.Key.Companions), "companions of the key")
	assert.Equalf(t, "xx", testfile.Read(t, count), "runs of make for the driver")
}

// TestCompanionLeftOut: a companion that does not compile there costs the companion only. Its reason, a text
// of the toolkit container, is one plain line.
func TestCompanionLeftOut(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "cp KOS/*.ko .")
	asks := p.withCompanions()
	testfile.Write(t, filepath.Join(p.image, p.info.Companions[0].Sources, "configure"), "#!/bin/sh\nKDIR=$MODULES_DIR/build\nprintf 'nvfs.c:1: error: no\\033[2J such field\\n' >&2; exit 1\n")
	p.run()
	set := require.Value(p.compile(asks))(t)
	_, there := set.File(driverinfo.GDRDrv)
	if reason := set.OmittedReason(driverinfo.NvidiaFS); reason != "nvfs.c:1: error: no?[2J such field" || !there {
		t.Errorf("%q, gdrdrv %v", reason, there)
	}
}

// ofed writes headers of an RDMA driver below a root, as the operator mounts them in both containers.
func ofed(t *testing.T, root, symbols string) {
	t.Helper()
	testfile.Write(t, filepath.Join(root, "run/mellanox/drivers/usr/src/ofa_kernel/x86_64", kbuildtest.Kernel, "Module.symvers"), symbols)
}

// TestRDMA: nvidia-peermem is compiled against the node's RDMA driver, which both containers have to see: modules that would not fit are
// not made. (TestDriverToolkit compiles with the same driver in both.)
func TestRDMA(t *testing.T) {
	t.Parallel()
	for symbols, want := range map[string]string{"": `it sees the RDMA driver "", the driver container "ofa_kernel-`, "0x2 ib_x": `it sees the RDMA driver "ofa_kernel-`} {
		p := newPod(t, kbuildtest.Kernel, "cp KOS/*.ko .")
		ofed(t, p.image, "0x1 ib_x")
		if symbols != "" {
			ofed(t, p.toolkit, symbols)
		}
		node := require.Value(modules.OFED(p.image, "x86_64", kbuildtest.Kernel))(t)
		p.run()
		_, err := p.compile(func(j *Job) { j.RDMA = []string{node} })
		assert.ErrorContains(t, require.ErrorAs[*UnavailableError](t, err), want, "mount /run/mellanox/drivers/usr/src in both")
		p.wait("the flag", func() bool { return p.has(broken) })
	}
}

package scenarios

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// thin returns the image with modules for a kernel and without a toolchain, or with a layer for each of
// several kernels. driver-build compiles the modules in a chroot, once.
func thin(t *testing.T, kernels ...*lab.HostKernel) guest.Image {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	return lab.ImageDisk(t, thinLayout(t, "thin", kernels))
}

// thinLayout returns the OCI layout of such an image, one for each name.
func thinLayout(t *testing.T, name string, kernels []*lab.HostKernel, flags ...string) string {
	t.Helper()
	flags, names := append(flags, "--builder", "chroot"), []string{name, d535.tag()}
	for _, k := range kernels {
		flags, names = append(flags, "--kernel", k.Release), append(names, k.Release)
	}
	if len(kernels) > 1 {
		flags = append(flags, "--one-image")
	}
	return d535.layoutOf(t, strings.Join(names, "-"), flags...)
}

// takeModules copies the modules out of the thin image into a cache, as a node would have compiled them.
func takeModules(t *testing.T, kernel *lab.HostKernel, state string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	ocitest.Unpack(t, ocitest.Open(t, thinLayout(t, "thin", []*lab.HostKernel{kernel})), root)
	to := filepath.Join(state, "modules")
	tool.Must(t, "mkdir", "-p", to)
	tool.Must(t, "cp", "-a", filepath.Join(root, "usr/share/nvidia-driver/modules")+"/.", to)
}

// The first start of a thin image on a node without compiler, headers or network, as soon as the runtime has
// unpacked the image. Nothing is compiled, the driver root takes almost no room, and nothing is written
// outside the driver's own folders.
func Test18Precompiled(t *testing.T) {
	lab.Gate(t)
	kernel := lab.Kernel(t, "debian12")
	g := stage{alone: true, disks: map[string]guest.Image{"thin": thin(t, kernel)}, edit: func(c *lab.Config) {
		c.NoHeaders, c.MemoryMB = true, 3000 // on a node, data that were just unpacked are in memory
	}}.start(t)
	for _, absent := range []string{"usr/bin/gcc", "usr/bin/make", "usr/bin/gcc-12", "usr/src/nvidia-535.261.03", "usr/src/linux-headers-" + kernel.Release} {
		assert.Equalf(t, false, g.Exists("/lab/images/thin/"+absent), "the thin image has %s", absent)
	}
	g.Unpack("thin")
	g.Sh(written + " >/run/before")
	used := number(t, g, usedMB)
	p := ready(t, g, driver("thin"))
	start := since(t, g, p, logtest.Ready).Round(time.Millisecond)
	t.Logf("the first start: ready after %s; phases %v", start, phasesOf(t, g, p))
	if up := statusOf(t, g).Up; up == nil || up.Source != "image" {
		t.Errorf("the modules did not come from the image: %+v", up)
	}
	serving(t, g, d535.driver)
	g.Eventually(time.Minute, "the root is on the disk", func() bool { return g.Sh("find /var/lib/nvidia-driver -name staged.boot") == "" })
	if more := number(t, g, usedMB) - used; more > 100 {
		t.Errorf("the driver root takes %d MB", more)
	} else {
		t.Logf("the driver root takes %d MB", more)
	}
	assert.Equalf(t, "", g.Sh(written+" | grep -vxFf /run/before || true"), "written outside of its folders")
	assert.Equalf(t, "roots", g.Sh("ls /var/lib/nvidia-driver"), "on the host's storage")
	stops(t, p, 0)
}

// usedMB prints how much of the disk with images, roots and caches is in use.
const usedMB = "df -m /var/lib | tail -n1 | awk '{print $3}'"

// written lists the files in the writable layers of containers and on the host's storage, except the driver's
// own folders and the runtime's mount points.
const written = `{ find /var/lib/containerd -path '*/fs/*' \( -type f -o -type l \) | sed 's|.*/fs/|image:|' | grep -v -e '^image:run/' -e '^image:host-etc/'
	find /var/lib /etc /root /opt /tmp -xdev -type f -not -path '/var/lib/nvidia-driver/*' -not -path '/var/lib/containerd/*' -not -path '/var/lib/kubelet/*'; }`

// One image with modules for several kernels serves each of them; on another kernel it lists the kernels that
// it has modules for and ends with 11.
func Test19SeveralKernels(t *testing.T) {
	lab.Gate(t)
	newest, second, third := lab.Kernel(t, "debian12"), lab.OlderKernel(t, "debian12", 2), lab.OlderKernel(t, "debian12", 3)
	image := thin(t, newest, second, third)
	for _, kernel := range []*lab.HostKernel{newest, second} {
		t.Run(kernel.Release, func(t *testing.T) {
			g := stage{boot: kernel, disks: map[string]guest.Image{"all": image}, edit: func(c *lab.Config) { c.NoHeaders = true }}.start(t)
			p := ready(t, g, driver("all"))
			up := statusOf(t, g).Up
			if up == nil || up.Source != "image" || driverLoaded(g) != d535.driver {
				t.Errorf("%+v, loaded %q", up, driverLoaded(g))
			}
			stops(t, p, 0)
		})
	}
	t.Run("another", func(t *testing.T) {
		older := lab.Kernel(t, "debian11")
		g := stage{boot: older, disks: map[string]guest.Image{"all": image}}.start(t)
		release := regexp.QuoteMeta(older.Release)
		fails(t, g, driver("all"), 11, 30*time.Second, `this node runs `+release,
			third.Release+`, `+second.Release+`, `+newest.Release, `driver-build .*--kernel `+release)
		assert.Equalf(t, false, strings.Contains(g.Sh("ls /var/lib/nvidia-driver"), "roots"), "something was staged")
	})
}

package scenarios

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/node/status"
)

// A driver whose modules came with a container that has ended, from a thin image or a mounted one, is put back by
// a container of another image whose own driver does not start; so is a driver whose modules a user kept from going
// half way. What other programs stacked on its root stays as long as the driver does.
func Test31WayBack(t *testing.T) {
	lab.Gate(t)
	kernel := lab.Kernel(t, "debian12")
	modules := func() guest.Image {
		making.Lock()
		defer making.Unlock()
		return lab.ImageDisk(t, thinLayout(t, "modules", []*lab.HostKernel{kernel}, "--profile", "modules"))
	}
	g := stage{
		products: map[string]product{"470": d470, "full": d535}, cached: []product{d470},
		disks: map[string]guest.Image{"thin": thin(t, kernel), "modules": modules()},
	}.start(t)
	g.Sh(`mkdir /run/modules && mount --bind /lab/images/modules /run/modules && mount -o remount,bind,ro,noexec,nosuid /run/modules`)
	const images = "/run/module-images/0"
	mounted := driver("full", "DRIVER_MODULE_IMAGE="+images, "DRIVER_FETCH_HEADERS=false").
		With(guest.Mount{Host: "/run/modules", Guest: images, ReadOnly: true})
	empty := look(g).withoutLock()

	leftBehind(t, g, driver("thin"), "/var/lib/nvidia-driver/roots/")
	t.Run("stacked, and the node is not fit", func(t *testing.T) { stackedUnfit(t, g) })
	t.Run("a user comes while it goes", func(t *testing.T) { userComes(t, g) })
	t.Run("thin to full and back", func(t *testing.T) { goesBack(t, g, driver("470"), d535.driver, d470.driver) })
	t.Run("thin to another set and back", func(t *testing.T) { goesBack(t, g, mounted, d535.driver, d535.driver) })
	t.Run("killed on the way back", func(t *testing.T) { killedOnTheWay(t, g) })
	assert.Equalf(t, empty, look(g).withoutLock(), "the node")

	leftBehind(t, g, mounted, modulesDir)
	t.Run("a mounted set to full and back", func(t *testing.T) { goesBack(t, g, driver("470"), d535.driver, d470.driver) })
	servesAgain(t, g, driver("470"), d470.driver)
	assert.Equalf(t, empty, look(g).withoutLock(), "the node")

	leftBehind(t, g, driver("470"), modulesDir)
	t.Run("full to thin and back", func(t *testing.T) { goesBack(t, g, driver("thin"), d470.driver, d535.driver) })
	servesAgain(t, g, driver("470"), d470.driver)
	assert.Equalf(t, empty, look(g).withoutLock(), "the node")
}

// leftBehind kills a container that serves. Its record names modules on the host.
func leftBehind(t *testing.T, g *lab.Guest, c lab.Container, folder string) {
	t.Helper()
	p := ready(t, g, c)
	for _, m := range statusOf(t, g).Up.Modules {
		if !strings.HasPrefix(m.File, folder) || !g.Exists(m.File) {
			t.Errorf("%s is recorded as %s, want a file in %s", m.Name, m.File, folder)
		}
	}
	p.Signal(syscall.SIGKILL)
	p.Kill()
}

const refusedParam = "NVreg_EnableMSI=nonsense"

// goesBack starts a driver that the kernel refuses: the old one is whole again.
func goesBack(t *testing.T, g *lab.Guest, c lab.Container, old, wanted string) {
	t.Helper()
	g.Write("/drivers/nvidia.conf", refusedParam+"\n", 0)
	defer g.Sh("rm -f /drivers/nvidia.conf")
	p := g.Start(c)
	out := ends(t, p, 13, 2*time.Minute)
	p.Kill()
	contains(t, out, fmt.Sprintf(`driver %s failed to start, %s is loaded again: .*invalid for parameter`, wanted, old))
	wholeAgain(t, g, old, status.Restored)
}

// wholeAgain requires that the old driver is served, with its firmware, and that the status says so.
func wholeAgain(t *testing.T, g *lab.Guest, old string, state status.State) {
	t.Helper()
	serving(t, g, old)
	assert.Equalf(t, "/run/nvidia/driver/lib/firmware", strings.TrimSpace(look(g).firmware), "the kernel's firmware path")
	assert.Equalf(t, true, g.Exists("/run/nvidia/driver/dev/nvidiactl"), "the device file")
	st := statusOf(t, g)
	if st.State != state || st.Up == nil || st.Up.Version != old || !st.Up.Firmware || len(st.Up.Modules) != 3 {
		t.Errorf("status %s, up %+v, reason %q; want %s %s", st.State, st.Up, st.Reason, old, state)
	}
}

// stackedUnfit: the disk has no room for another root, so preflight refuses the new driver, and touches nothing.
func stackedUnfit(t *testing.T, g *lab.Guest) {
	g.Sh("rm -f /run/nvidia/nvidia-driver.pid && mount -t tmpfs stacked /run/nvidia/driver") // the killed instance's file is not part of this
	g.Sh("fallocate -l $(df -k /var/lib | awk 'END{print ($4-200*1024)*1024}') /var/lib/fill")
	fails(t, g, driver("470"), 11, 3*time.Minute, `2 driver roots are stacked on /run/nvidia/driver; one root takes their place`, `disk: \d+ MiB are free`)
	assert.Equalf(t, 2, roots(t, g), "layers at the driver root")
	if up := statusOf(t, g).Up; up == nil || up.Version != d535.driver {
		t.Errorf("the status has %+v", up)
	}
	g.Sh("rm -f /var/lib/fill")
	g.Sh("umount /run/nvidia/driver")
	serving(t, g, d535.driver)
}

// comer opens the device as soon as the first module of the driver is gone.
const comer = `while [ -d /sys/module/nvidia_modeset ] && [ -d /sys/module/nvidia_uvm ]; do sleep 0.02; done
exec 3<>/run/nvidia/driver/dev/nvidiactl && echo open && exec sleep 100000`

// userComes: the modules that were unloaded before the user came are loaded again, and the user is waited for.
func userComes(t *testing.T, g *lab.Guest) {
	n := loads(g)
	user := g.Process("sh", "-c", comer)
	p := g.Start(driver("470"))
	p.WaitLine(fmt.Sprintf(logtest.WaitsToReplace+`.*driver is in use by pid %d`, user.PID), 2*time.Minute)
	wholeAgain(t, g, d535.driver, status.Waiting)
	stops(t, p, 0)
	p.Kill()
	contains(t, user.Output(), "open")
	wholeAgain(t, g, d535.driver, status.Detached)
	assert.Equalf(t, n, loads(g), "loads of nvidia, which the user holds")
	user.Kill()
}

// killedOnTheWay kills the container while it puts the old driver back: the next one serves, and leaves nothing.
func killedOnTheWay(t *testing.T, g *lab.Guest) {
	g.Write("/drivers/nvidia.conf", refusedParam+"\n", 0)
	p := g.Start(driver("470"))
	p.WaitLine("stopping after a failure", 2*time.Minute)
	p.Signal(syscall.SIGKILL)
	p.Kill()
	g.Sh("rm -f /drivers/nvidia.conf")
	t.Logf("killed with the modules %v", g.Driver())
	p = ready(t, g, driver("470"))
	contains(t, p.Output(), logtest.Ready)
	serving(t, g, d470.driver)
	stops(t, p, 0)
	p.Kill()
}

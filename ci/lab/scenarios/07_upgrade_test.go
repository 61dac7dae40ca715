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

// An upgrade without a reboot, from 470 to 535: idle, in use, and with a 535 that the kernel refuses. 470 is an image with
// a distribution, 535 a thin one.
func Test07Upgrade(t *testing.T) {
	lab.Gate(t)
	g := stage{
		products: map[string]product{"470": d470}, cached: []product{d470},
		disks: map[string]guest.Image{"535": thin(t, lab.Kernel(t, "debian12"))},
	}.start(t)
	empty := look(g).withoutLock()
	killed(t, g)
	t.Run("disk full", func(t *testing.T) { fullDisk(t, g) })
	t.Run("idle", func(t *testing.T) { upgradeIdle(t, g) })
	t.Run("busy", func(t *testing.T) { upgradeBusy(t, g) })
	t.Run("stopped while it waits", func(t *testing.T) { upgradeStopped(t, g) })
	for _, c := range []struct{ module, param string }{
		{"nvidia", "NVreg_EnableMSI=nonsense"},              // no module of the new driver loads
		{"nvidia-uvm", "uvm_perf_prefetch_enable=nonsense"}, // some of its modules load
	} {
		t.Run("refused "+c.module, func(t *testing.T) { upgradeRefused(t, g, c.module, c.param) })
	}
	servesAgain(t, g, driver("470"), d470.driver)
	assert.Equalf(t, empty, look(g).withoutLock(), "the node")
}

// killed starts a 470 that serves, and kills its container: modules and root stay.
func killed(t *testing.T, g *lab.Guest) {
	t.Helper()
	p := ready(t, g, driver("470"))
	serving(t, g, d470.driver)
	p.Signal(syscall.SIGKILL)
	p.Kill()
}

// upgradeIdle goes back as well, from the thin image.
func upgradeIdle(t *testing.T, g *lab.Guest) {
	p := ready(t, g, driver("535"))
	serving(t, g, d535.driver)
	contains(t, p.Output(), logtest.Unloading+`470\.256\.02`)
	p.Signal(syscall.SIGKILL)
	p.Kill()
	p = ready(t, g, driver("470"))
	serving(t, g, d470.driver)
	contains(t, p.Output(), logtest.Unloading+`535\.261\.03`)
	stops(t, p, 0)
}

// upgradeBusy keeps 470 in use by a holder and lets 535 wait for the holder.
func upgradeBusy(t *testing.T, g *lab.Guest) {
	p := ready(t, g, driver("470", "DRIVER_GRACE=8s"))
	holder := g.Hold("/run/nvidia/driver/dev/nvidiactl")
	out := stops(t, p, 0)
	p.Kill()
	contains(t, out, fmt.Sprintf(logtest.LeftInPlace+`.*driver is in use by pid %d \(`, holder.PID))

	p = g.Start(driver("535"))
	p.WaitLine(fmt.Sprintf(logtest.WaitsToReplace+`470\.256\.02: .*in use by pid %d \(.*nvidiactl`, holder.PID), 2*time.Minute)
	st := statusOf(t, g)
	if st.State != status.Waiting || st.Ready || len(st.Holders) != 1 || st.Holders[0].PID != holder.PID {
		t.Errorf("status %s, ready %v, holders %v; want it to wait for %d", st.State, st.Ready, st.Holders, holder.PID)
	}
	if r := p.Exec("nvidia-driver", "probe", "ready"); r.Code != 15 || !strings.Contains(r.Output, "must go before 535.261.03 can be loaded") {
		t.Errorf("probe ready: %v", r)
	}
	if r := p.Exec("nvidia-driver", "probe", "live"); r.Code != 0 {
		t.Errorf("probe live: %v", r)
	}
	serving(t, g, d470.driver) // programs that use the old driver can go on
	if !p.Running() {
		t.Fatal("it ended instead of waiting")
	}
	holder.Kill()
	begin := time.Now()
	p.WaitLine(logtest.Ready+`535`, time.Minute)
	t.Logf("535 is ready %s after the holder left", time.Since(begin).Round(10*time.Millisecond))
	serving(t, g, d535.driver)
	if st := statusOf(t, g); len(st.Holders) != 0 || st.Reason != "" {
		t.Errorf("holders %v and reason %q are still in the status", st.Holders, st.Reason)
	}
	stops(t, p, 0)
}

// upgradeStopped ends a 535 that waits: 470 is not changed, and the next 470 adopts it.
func upgradeStopped(t *testing.T, g *lab.Guest) {
	killed(t, g)
	holder := g.Hold("/run/nvidia/driver/dev/nvidia-uvm")
	p := g.Start(driver("535"))
	p.WaitLine(logtest.WaitsToReplace+`470`, 2*time.Minute)
	begin := time.Now()
	stops(t, p, 0)
	if took := time.Since(begin); took > g.Limit(3*time.Second) {
		t.Errorf("it stopped after %s", took)
	}
	p.Kill()
	serving(t, g, d470.driver)
	p = ready(t, g, driver("470"))
	contains(t, p.Output(), logtest.Adopting+`470\.256\.02`)
	holder.Kill()
	stops(t, p, 0)
	assert.Equalf(t, "", driverLoaded(g), "still loaded")
}

// upgradeRefused gives a parameter a value that the new module refuses: the old driver is loaded and served
// again.
func upgradeRefused(t *testing.T, g *lab.Guest, module, param string) {
	killed(t, g)
	conf := "/drivers/" + module + ".conf"
	g.Write(conf, param+"\n", 0)
	defer g.Sh("rm -f " + conf)
	p := g.Start(driver("535"))
	out := ends(t, p, 13, 2*time.Minute)
	p.Kill()
	name, _, _ := strings.Cut(param, "=")
	contains(t, out, `driver 535\.261\.03 failed to start, 470\.256\.02 is loaded again: .*invalid for parameter .`+name, `/drivers/<module>\.conf`)
	serving(t, g, d470.driver)
	if st := statusOf(t, g); st.State != status.Restored || st.Ready || st.Up == nil || st.Up.Version != d470.driver || !strings.Contains(st.Reason, name) {
		t.Errorf("status %s, up %+v, reason %q; want 470 restored", st.State, st.Up, st.Reason)
	}
	g.Sh("rm -f " + conf)
	p = ready(t, g, driver("470")) // the old image again: it adopts the driver that was restored
	contains(t, p.Output(), `adopting it`)
	stops(t, p, 0)
}

// fullDisk: the disk has no room for the root of 535 while 470 serves. What serves stays, and nothing
// incomplete is left. It is part of Test07Upgrade, whose guest has what it needs.
func fullDisk(t *testing.T, g *lab.Guest) {
	roots := g.Sh("ls -A /var/lib/nvidia-driver/roots")
	// the files of the killed instance are not part of this test
	g.Sh("rm -f /run/nvidia/nvidia-driver.pid /run/nvidia/validations/.tmp-*")
	g.Sh("fallocate -l $(df -k /var/lib | awk 'END{print ($4-200*1024)*1024}') /var/lib/fill")
	out := fails(t, g, driver("535"), 11, 3*time.Minute, `disk: \d+ MiB are free in /var/lib/nvidia-driver, .*copying the driver root there takes .* Free space there`)
	assert.Equalf(t, false, strings.Contains(out, "unloading"), "the old driver was unloaded")
	serving(t, g, d470.driver)
	assert.Equalf(t, roots, g.Sh("ls -A /var/lib/nvidia-driver/roots"), "staged roots")
	g.Sh("rm -f /var/lib/fill")
}

package scenarios

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/node/status"
)

const companionsDir = "/gpudirect" // in the guest: the description of an image with companions

// direct returns a driver's pod that asks for both companions, of an image that has them.
func direct(t *testing.T, g *lab.Guest, c lab.Container) lab.Container {
	t.Helper()
	note := companionsDir + "/driver.json"
	if !g.Exists(note) {
		g.Write(note, describe(t, g.Read("/lab/images/535/"+driverinfo.Path)), 0o644)
	}
	c.Env = append(c.Env, "GDS_ENABLED=true", "GDRCOPY_ENABLED=true")
	return c.With(guest.Mount{Host: note, Guest: "/" + driverinfo.Path, ReadOnly: true, File: true})
}

// companionView changes when a companion is loaded again.
func companionView(g *lab.Guest) string {
	return g.Sh(`cd /sys/module; for m in nvidia_fs gdrdrv; do echo $m $(cat $m/initstate $m/version $m/sections/.text); done; grep -E 'nvidia-fs|gdrdrv' /proc/devices`)
}

// Driver 535 with the real nvidia-fs 2.13.5 and a stand-in for gdrdrv: loaded after nvidia, with device
// files; held, left, adopted after a kill, unloaded first; not asked for any more.
func Test28GPUDirect(t *testing.T) {
	lab.Gate(t)
	set := withCompanions(t, lab.Kernel(t, "debian12"))
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) { c.Disks["/seed/a"] = lab.TreeDisk(t, only(t, set)) }}.start(t)
	g.Sh("mkdir -p /var/lib/nvidia-driver/modules " + companionsDir + "; cp -a /seed/a/. /var/lib/nvidia-driver/modules/")
	before := look(g)
	c := direct(t, g, driver("535", "DRIVER_GRACE=8s"))
	predicts(t, g, c, 0, `gpudirect +ok +nvidia-fs 2\.13\.5; gdrdrv 2\.5\.2`)
	p := ready(t, g, c)
	assert.Equalf(t, "nvidia nvidia_fs nvidia_modeset nvidia_uvm", strings.Join(g.Driver(), " "), "modules")
	assert.Equalf(t, "gdrdrv nvidia_modeset nvidia_uvm", strings.Join(strings.Fields(g.Sh("ls /sys/module/nvidia/holders")), " "), "nvidia_fs is no holder of nvidia")
	contains(t, p.Exec("sh", "-c", "stat -c '%A %n' /dev/nvidia-fs0 /dev/nvidia-fs15 /dev/gdrdrv").Output, `crw-rw-rw- /dev/nvidia-fs0\n`, `crw-rw-rw- /dev/nvidia-fs15\n`, `crw-rw-rw- /dev/gdrdrv`)
	for _, s := range statusOf(t, g).Companions {
		if !s.Loaded || s.Foreign || s.Reason != "" || s.Version != map[string]string{"nvidia-fs": "2.13.5", "gdrdrv": "2.5.2"}[s.Name] {
			t.Errorf("%+v", s)
		}
	}
	contains(t, p.Exec("nvidia-driver", "status").Output, `(?m)^companion +nvidia-fs 2\.13\.5 is loaded$`, `(?m)^companion +gdrdrv 2\.5\.2 is loaded$`)

	// This kernel lets no module have the closed driver's functions by symbol_get.
	if r := p.Exec("sh", "-c", "exec 3<>/dev/nvidia-fs0"); r.Code == 0 {
		t.Errorf("opening /dev/nvidia-fs0: %+v", r)
	}
	contains(t, g.Dmesg(), `failing symbol_get of non-GPLONLY symbol nvidia_p2p_dma_unmap_pages`)

	live, work := companionView(g), p.Hold("/dev/gdrdrv")
	contains(t, stops(t, p, 0), logtest.LeftInPlace+`Could not unload NVIDIA driver kernel modules, driver is in use by .*: /dev/gdrdrv`)
	if st := statusOf(t, g); st.State != status.Detached || companionView(g) != live {
		t.Errorf("%+v\n%s", st, companionView(g))
	}
	work.Kill()
	p.Kill()
	p = ready(t, g, c)
	contains(t, p.Output(), logtest.Adopting+`535\.261\.03`)
	p.Kill() // kill -9 of all its processes
	p = ready(t, g, c)
	assert.Equalf(t, live, companionView(g), "companions after a kill")
	stops(t, p, 0)
	contains(t, g.Dmesg(), `(?s)nvidia_fs: driver unloaded successfully.*Unloading`)
	assert.Equalf(t, before, look(g).withoutLock(), "the node")
	p.Kill()
	notAsked(t, g, c)
}

// notAsked: a successor without --gds and --gdrcopy unloads both, and keeps the driver.
func notAsked(t *testing.T, g *lab.Guest, c lab.Container) {
	t.Helper()
	p := ready(t, g, c)
	live := kernelView(g)
	p.Kill()
	c.Env = append(c.Env, "GDS_ENABLED=false", "GDRCOPY_ENABLED=false")
	p = adopts(t, g, c, live)
	if loaded := strings.Join(g.Modules(), " "); strings.Contains(loaded, "nvidia_fs") || strings.Contains(loaded, "gdrdrv") {
		t.Errorf("still loaded: %s", loaded)
	}
	stops(t, p, 0)
	p.Kill()
}

// With Secure Boot and the site's key, a set that is signed whole is loaded. If only nvidia-fs has lost its
// signature, the kernel refuses it, the driver is ready, and the status has the kernel's reason.
func Test28SecureBoot(t *testing.T) {
	lab.Gate(t)
	set := withCompanions(t, lab.Kernel(t, "debian12"))
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		site := newKey("The site's modules")
		c.Firmware = &lab.Firmware{Key: site}
		c.Disks[forgedDir] = forgeOf(t, set, forged{name: "signed", key: site}, forged{name: "stripped", key: site, module: driverinfo.NvidiaFS, damage: stripped})
	}}.start(t)
	g.Sh("modprobe drm")
	p := ready(t, g, direct(t, g, with("535", "stripped")))
	var fs, drv status.Companion
	for _, s := range statusOf(t, g).Companions {
		if s.Name == driverinfo.NvidiaFS {
			fs = s
		} else {
			drv = s
		}
	}
	if !statusOf(t, g).Ready || fs.Loaded || !drv.Loaded {
		t.Errorf("%+v, %+v", fs, drv)
	}
	contains(t, fs.Reason, `^load nvidia_fs: the kernel refused the module nvidia_fs .*`)
	stops(t, p, 0)
	p.Kill()
	cleanTaint(t, g)
	p = ready(t, g, direct(t, g, with("535", "signed")))
	assert.Equalf(t, "nvidia nvidia_fs nvidia_modeset nvidia_uvm", strings.Join(g.Driver(), " "), "modules")
	cleanTaint(t, g)
	stops(t, p, 0)
	assert.Equalf(t, "", strings.Join(g.Driver(), " "), "modules after the stop")
}

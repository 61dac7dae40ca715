package scenarios

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// On a node whose own system loaded the modules, the container serves them and a stop leaves them; /lib/modules is
// empty, as on Talos. The image of another driver is refused, and touches nothing.
func Test29HostModules(t *testing.T) {
	g := stage{products: map[string]product{"535": d535, "470": d470}, cached: []product{d535}}.start(t)
	g.Sh("cd " + cachedModules + `
		for m in $(for m in drm video ipmi_devintf; do modprobe -D $m; done | cut -d' ' -f2); do insmod $m; done 2>/dev/null
		for m in nvidia nvidia-uvm nvidia-modeset; do insmod ./$m.ko || exit 1; done
		rm -r /var/lib/nvidia-driver/modules
		mount -t tmpfs none /lib/modules`)
	before := look(g)
	host := func(image string) lab.Container { return driver(image, "DRIVER_MODULES=host") }
	for range 2 {
		p := ready(t, g, host("535"))
		if up := statusOf(t, g).Up; up == nil || up.Source != status.FromHost || len(up.Modules) != 3 {
			t.Errorf("the status has %+v", up)
		}
		serving(t, g, d535.driver)
		r := p.Exec("nvidia-driver", "status")
		contains(t, r.Output, `535\.261\.03, proprietary modules, of the node's own system`)
		stops(t, p, 0)
		assert.Equalf(t, before, look(g).withoutLock(), "after a stop")
	}
	contains(t, ends(t, g.Start(host("470")), 11, time.Minute),
		`modules: the node's own system loaded nvidia of driver 535\.261\.03, this image has driver 470\.256\.02\. Use the image of driver 535\.261\.03`)
	after := look(g)
	assert.Equalf(t, before.modules+before.mounts+before.dev, after.modules+after.mounts+after.dev, "after another driver was refused")
}

package scenarios

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/node/status"
)

// With Secure Boot, on a node without headers, an image that is mounted beside the driver's, as kubelet mounts it, has
// the kernel's modules: nothing is compiled or signed. Unsigned and damaged sets are refused, also with a key on the
// node.
func Test30ModuleImage(t *testing.T) {
	var site *testcert.Pair
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		site = newKey("The site's modules")
		c.Firmware, c.NoHeaders = &lab.Firmware{Key: site}, true
		c.Images["modules"] = signedThin(t, c.Kernel, site, "--profile", "modules")
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, forged{name: "unsigned"})
	}}.start(t)
	g.Sh(`mkdir /run/modules && mount --bind /lab/images/modules /run/modules && mount -o remount,bind,ro,noexec,nosuid /run/modules
		cp -r ` + forgedDir + `/unsigned /run/damaged && truncate -s 1 /run/damaged/*/nvidia.ko`)
	g.Write("/keys/key.pem", site.KeyPEM(), 0o400)
	g.Write("/keys/cert.pem", site.CertPEM(), 0o400)
	mounts := func(folder, at string) lab.Container {
		const root = "/run/module-images/0"
		return withKey(light("535", "DRIVER_MODULE_IMAGE="+root, "DRIVER_FETCH_HEADERS=false")).With(guest.Mount{Host: folder, Guest: root + at, ReadOnly: true})
	}
	c := mounts("/run/modules", "")
	predicts(t, g, c, 0, `modules-found +ok +a mounted image has modules for kernel .*: /run/module-images/0/usr/share/`,
		`module-signing +ok +`+demanded+`the modules are`+byTest+`, which the kernel knows`)
	p := ready(t, g, c)
	if up := statusOf(t, g).Up; up == nil || up.Source != status.FromMounted {
		t.Errorf("the status has %+v", up)
	}
	serving(t, g, d535.driver)
	cleanTaint(t, g)
	stops(t, p, 0)
	assert.Equalf(t, "", g.Sh("ls "+modulesDir), "in the cache")
	const sets = "/usr/share/nvidia-driver/modules"
	fails(t, g, mounts(forgedDir+"/unsigned", sets), 13, time.Minute, `module-signing: `+demanded+`the modules have no signature`)
	fails(t, g, mounts("/run/damaged", sets), 11, time.Minute, `the cached modules in /run/module-images/0/.* are damaged: nvidia\.ko has changed`, `headers: no headers for kernel`)
}

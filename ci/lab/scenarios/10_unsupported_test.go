package scenarios

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// tooOld is gcc 10's message about the options of kernel 6.1.
const tooOld = `gcc: error: unrecognized command-line option '-mharden-sls=all'`

// If there are no headers anywhere, the start ends with 11, names every place where it looked, and says what
// to do.
func Test10NoHeaders(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) { c.NoHeaders = true }}.start(t)
	release := g.Sh("uname -r")
	fails(t, g, driver("535", "DRIVER_FETCH_HEADERS=false"), 11, 20*time.Second,
		`no headers for kernel `+release+`: image: /lib/modules/`+release+`/build: .*; image: /usr/src/linux-headers-`+release+`: .*host: /usr/src/linux-headers-`+release,
		`Install linux-headers-`+release+` on the host and run with hostPID or mount its /usr at /host/usr`)
	// The image's repositories cannot be reached: the guest has no network.
	fails(t, g, driver("535"), 11, 2*time.Minute,
		`asking the system's repositories`, `no headers for kernel `+release+` from the package repositories`, `could not be used: .*`,
		`run with hostPID or mount its /usr at /host/usr, or use an image with modules for this kernel`)
	assert.Equalf(t, "", g.Sh("find /var/lib/nvidia-driver -type f"), "left on the host's storage")
}

// A rule in the image of 418 refuses kernel 6.1 before anything is compiled. If the rule is overridden, the
// compiler reports the problem. A test of the kernel's interfaces takes seconds here, and NVIDIA's script
// runs 150 of them, so it is replaced by one that finds nothing; make, the compiler, the sources and the
// kernel's headers are real.
func Test10CompileFails(t *testing.T) {
	g := stage{products: map[string]product{"418": d418}}.start(t)
	fails(t, g, driver("418"), 11, 20*time.Second,
		`kernel-limit: kernel 6\.1\.0-\d+-amd64 is newer than 5\.15, the newest .*418\.226\.00.*does not build on 6\.1`,
		`--skip-preflight kernel-limit tries it all the same`)
	g.Write("/lab/conftest.sh", "#!/bin/sh\nexit 0\n", 0o755)
	c := withHeaders(g, driver("418", "DRIVER_SKIP_PREFLIGHT=kernel-limit")).With(guest.Mount{
		Host: "/lab/conftest.sh", Guest: "/usr/src/nvidia-418.226.00/kernel/conftest.sh", ReadOnly: true, File: true})
	fails(t, g, c, 12, 5*time.Minute, `warning: preflight: kernel-limit`, `compile driver 418\.226\.00 for kernel 6\.1`,
		tooOld, `last lines of the compile count=40`, `whole output in /var/lib/nvidia-driver/log/compile-418\.226\.00`)
	log := g.Sh("cat /var/lib/nvidia-driver/log/compile-418.226.00-*.log")
	contains(t, log, tooOld)
}

// A driver can compile for a kernel whose loader refuses it: 418 on Debian 11's 5.10. nvidia is loaded when
// the kernel refuses nvidia-uvm. Then nvidia is unloaded again, and the message names the symbol.
func Test10LoadsInPart(t *testing.T) {
	g := stage{kernel: "debian11", products: map[string]product{"418": d418}, cached: []product{d418}}.start(t)
	fails(t, g, light("418"), 13, 30*time.Second, `the kernel refused the module nvidia_uvm`, `radix_tree_preloads`)
}

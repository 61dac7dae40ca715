package imagetest

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// Module is a kernel module that consists of its description: enough for code that reads the
// description, and for signing.
func Module(name, version, release string) []byte {
	return LinkedModule(name, version, release, nil, nil)
}

// LinkedModule is a Module that offers symbols to others and needs symbols of others. modinfo is
// more of what it says of itself: "depends=nvidia".
func LinkedModule(
	name, version, release string,
	exports, needs []string,
	modinfo ...string,
) []byte {
	info := fmt.Sprintf(
		"name=%s\x00version=%s\x00license=NVIDIA\x00srcversion=AC415F9243EB439A4D6B17F\x00vermagic=%s SMP mod_unload \x00",
		name,
		version,
		release,
	)
	if len(modinfo) > 0 {
		info += strings.Join(modinfo, "\x00") + "\x00"
	}
	return kbuildtest.ModuleFile(info, exports, needs)
}

// The kernels of debian12 in a world, newest first.
const (
	Kernel      = "6.1.0-56-amd64"
	CloudKernel = "6.1.0-56-cloud-amd64"
	OldKernel   = "6.1.0-9-amd64"
)

const kernelTools = `
package linux-kbuild-6.1 6.1.192-2
	Depends: libc6
	usr/lib/linux-kbuild-6.1/scripts/mod/modpost * program
`

const kernelPackages = `
package linux-image-$RELEASE 6.1.192-2
	boot/vmlinuz-$RELEASE = kernel
package linux-headers-$RELEASE 6.1.192-2
	Depends: linux-kbuild-6.1, gcc-12
	usr/src/linux-headers-$RELEASE/include/config/auto.conf = CONFIG_MODULE_SIG_HASH="sha256"
	usr/src/linux-headers-$RELEASE/include/config/kernel.release = $RELEASE
	usr/src/linux-headers-$RELEASE/include/generated/utsrelease.h = #define UTS_RELEASE "$RELEASE"
	usr/src/linux-headers-$RELEASE/Makefile = all:
	lib/modules/$RELEASE/build -> /usr/src/linux-headers-$RELEASE
`

// kernels makes the packages of debian12's kernels.
func kernels() (list []repotest.Deb) {
	all := packagesOf(kernelTools, "amd64")
	for _, release := range []string{Kernel, CloudKernel, OldKernel} {
		all = append(all, packagesOf(kernelPackages, "amd64", "$RELEASE", release)...)
	}
	for _, d := range all {
		list = append(list, d.deb("amd64"))
	}
	return list
}

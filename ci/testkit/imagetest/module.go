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

// kernels makes the packages of debian12's kernels.
func kernels() []repotest.Deb {
	pack := func(name, arch, fields string, files ...repotest.File) repotest.Deb {
		return repotest.Deb{
			Control: fmt.Sprintf("Package: %s\nVersion: 6.1.192-2\nArchitecture: %s\n%sDescription: %[1]s for tests", name, arch, fields), Files: files,
		}
	}
	list := []repotest.Deb{pack("linux-kbuild-6.1", "amd64", "Depends: libc6\n", repotest.File{Name: "usr/lib/linux-kbuild-6.1/scripts/mod/modpost", Body: "program", Mode: 0o755})}
	for _, release := range []string{Kernel, CloudKernel, OldKernel} {
		list = append(list, pack("linux-image-"+release, "amd64", "", text("boot/vmlinuz-"+release, "kernel")),
			pack("linux-headers-"+release, "amd64", "Depends: linux-kbuild-6.1, gcc-12\n",
				text("usr/src/linux-headers-"+release+"/include/config/auto.conf", "CONFIG_MODULE_SIG_HASH=\"sha256\"\n"),
				text("usr/src/linux-headers-"+release+"/include/config/kernel.release", release+"\n"),
				text("usr/src/linux-headers-"+release+"/include/generated/utsrelease.h", "#define UTS_RELEASE \""+release+"\"\n"),
				text("usr/src/linux-headers-"+release+"/Makefile", "all:\n"),
				link("lib/modules/"+release+"/build", "/usr/src/linux-headers-"+release)))
	}
	return list
}

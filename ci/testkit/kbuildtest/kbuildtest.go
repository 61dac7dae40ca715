// Package kbuildtest has what a compile of kernel modules needs, made of scripts: sources that only
// look like a driver's, headers of a kernel, and a make that does what the test wants.
package kbuildtest

import (
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Kernel is a release of which no test machine has headers.
const Kernel = "6.1.0-56-amd64"

// Driver is the version of the sources.
const Driver = "535.261.03"

// Modules are the names of the driver's modules.
var Modules = []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"}

// Compiler is what the kernel's configuration and the compiler say of it.
const Compiler = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"

// Image writes an image's description and sources below a root, and returns the description.
func Image(t require.T, root string) driverinfo.Description {
	t.Helper()
	info := driverinfo.Description{
		Schema:   driverinfo.Schema,
		Driver:   Driver,
		Branch:   "R535",
		OS:       "debian12",
		Arch:     "amd64",
		Profile:  "full",
		Flavours: []string{driverinfo.Proprietary},
		ID:       strings.Repeat("0", 64),
	}
	testfile.Write(t, filepath.Join(root, driverinfo.Path), string(require.Value(info.Encode())(t)))
	source := filepath.Join(root, "usr/src/nvidia-"+Driver, "kernel")
	for _, name := range []string{"Makefile", "Kbuild", "conftest.sh", "common/inc/nv.h", "nvidia/nv-p2p.h"} {
		testfile.Write(t, filepath.Join(source, name), "")
	}
	for _, name := range Modules {
		testfile.Write(t, filepath.Join(source, name, name+".Kbuild"), "")
	}
	return info
}

// Headers writes the prepared tree of a kernel into a folder, like Red Hat's.
func Headers(t require.T, dir, release string) {
	t.Helper()
	testfile.Write(
		t,
		dir+"/include/generated/utsrelease.h",
		"#define UTS_RELEASE \""+release+"\"\n",
	)
	testfile.Write(
		t,
		dir+"/include/config/auto.conf",
		"CONFIG_MODULES=y\nCONFIG_MODULE_SIG_HASH=\"sha256\"\nCONFIG_CC_VERSION_TEXT=\""+Compiler+"\"\n",
	)
	for _, name := range []string{"include/generated/autoconf.h", "Module.symvers", "include/linux/module.h", "Makefile", "scripts/mod/modpost"} {
		testfile.Write(t, dir+"/"+name, "# "+name)
	}
}

// Toolkit writes headers of a kernel below a root, and programs into its folder bin, which it
// returns. make runs script in the copied sources; KOS in it is a folder with finished modules of
// the driver. Companions always compile.
func Toolkit(t require.T, root, release, script string) (path string) {
	t.Helper()
	for _, name := range Modules {
		testfile.Write(
			t,
			filepath.Join(root, "kos", name+".ko"),
			Module(strings.ReplaceAll(name, "-", "_"), Driver, release),
		)
	}
	for _, name := range driverinfo.Companions() {
		testfile.Write(
			t,
			filepath.Join(root, "kos/companions", name+".ko"),
			Module(strings.ReplaceAll(name, "-", "_"), CompanionVersion, release),
		)
	}
	Headers(t, filepath.Join(root, "usr/src/kernels", release), release)
	testfile.Write(
		t,
		root+"/bin/make",
		"#!/bin/sh\n"+strings.ReplaceAll(
			makeCompanion+"cd \"$2\" || exit 9\n"+script,
			"KOS",
			root+"/kos",
		)+"\n",
	)
	testfile.Write(t, root+"/bin/strip", "#!/bin/sh\ncp \"$4\" \"$3\"\n")
	testfile.Write(t, root+"/bin/gcc-12", "#!/bin/sh\necho '"+Compiler+"'\n")
	return filepath.Join(root, "bin")
}

package kbuildtest

import (
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// CompanionVersion is the version of the companions' modules.
const CompanionVersion = "2.13.5"

// makeCompanion is make for a companion: M is the folder of its module.
const makeCompanion = `for arg; do case $arg in M=*) exec cp KOS/companions/*.ko "${arg#M=}" ;; esac; done
`

// fsConfigure is a configure in the form of nvidia-fs: it tests the kernel in KDIR.
const fsConfigure = `#!/bin/sh
export MODULES_DIR=/lib/modules/$1
export KDIR=$MODULES_DIR/build
[ -f "$KDIR/Makefile" ] && [ "$MAKEFLAGS" = "CC=COMPILER" ] || exit 3
echo "#define HAVE_ACCESS_OK_2_PARAMS 1" >config-host.h
`

// Companions writes sources of nvidia-fs and gdrdrv below the root of an image, and returns their
// descriptions. Their scripts want a compiler by this path.
func Companions(t require.T, root, compiler string) (all []driverinfo.Companion) {
	t.Helper()
	for i, name := range driverinfo.Companions() {
		all = append(
			all,
			driverinfo.Companion{
				Name:    name,
				Version: CompanionVersion,
				Digest:  strings.Repeat([]string{"ab", "cd"}[i], 32),
				Sources: driverinfo.CompanionSources(name, CompanionVersion),
			},
		)
	}
	fs := filepath.Join(root, all[0].Sources)
	drv := filepath.Join(root, all[1].Sources)
	testfile.Write(t, fs+"/configure", strings.ReplaceAll(fsConfigure, "COMPILER", compiler))
	testfile.Write(t, fs+"/Makefile", "obj-m += nvidia-fs.o\n")
	testfile.Write(t, fs+"/GDS_VERSION", "1.4.0.29\n")
	testfile.Write(t, drv+"/src/gdrdrv/Makefile", "obj-m := nv-p2p-dummy.o\nobj-m += gdrdrv.o\n")
	for name, answer := range map[string]string{"VM_FLAGS_SET": "n", "PROC_OPS": "y"} {
		testfile.Write(
			t,
			drv+"/scripts/test_gdrdrv_HAVE_"+name+".sh",
			"#!/bin/sh\nkver=$2\nkdir=\"/lib/modules/${kver}/build\"\n[ -f \"$kdir/Makefile\" ] && echo "+answer+"\n",
		)
	}
	return all
}

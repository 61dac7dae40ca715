package buildtree

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const (
	release    = "6.1.0-56-amd64"
	debianText = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
)

// outputTree writes the files that every prepared tree has in its build folder, and more of them.
func outputTree(t *testing.T, dir, release string, more map[string]string) {
	t.Helper()
	testfile.Tree(t, dir, map[string]string{
		"include/generated/utsrelease.h": "#define UTS_RELEASE \"" + release + "\"\n", "include/generated/autoconf.h": "",
		"include/config/auto.conf": "CONFIG_MODULES=y\nCONFIG_MODULE_SIG_HASH=\"sha256\"\nCONFIG_CC_VERSION_TEXT=\"" + debianText + "\"\n",
		"Module.symvers":           "0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\n",
	})
	testfile.Tree(t, dir, more)
}

// debianTree writes Debian's split tree: two folders, scripts elsewhere, links in /lib/modules, all absolute.
func debianTree(t *testing.T, root string) {
	t.Helper()
	own, common := "usr/src/linux-headers-"+release, "usr/src/linux-headers-6.1.0-56-common"
	outputTree(t, root+"/"+own, release, map[string]string{
		"include/config/kernel.release": "6.1.192\n", // as in Debian's packages
		"Makefile":                      "include /" + common + "/Makefile\n", "scripts": "-> ../../lib/linux-kbuild-6.1/scripts",
	})
	testfile.Tree(t, root, map[string]string{
		"usr/lib/linux-kbuild-6.1/scripts/mod/modpost": "#!", common + "/include/linux/module.h": "", common + "/Makefile": "# top\n",
		"usr/lib/modules/" + release + "/build": "-> /" + own, "usr/lib/modules/" + release + "/source": "-> /" + common, "lib": "-> usr/lib",
	})
}

// wholeTree writes a tree in one folder, like Red Hat's.
func wholeTree(t *testing.T, root, dir, release string) {
	t.Helper()
	outputTree(t, root+"/"+dir, release, map[string]string{"include/linux/module.h": "", "Makefile": "# top\n", "scripts/mod/modpost": "#!"})
}

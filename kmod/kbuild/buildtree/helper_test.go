package buildtree

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testfile"
)

const (
	release    = "6.1.0-56-amd64"
	debianText = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
)

// outputTree writes the files that every prepared tree has in its build folder.
func outputTree(t *testing.T, root, dir, release string) {
	t.Helper()
	testfile.Write(t, root+"/"+dir+"/include/generated/utsrelease.h", "#define UTS_RELEASE \""+release+"\"\n")
	testfile.Write(t, root+"/"+dir+"/include/generated/autoconf.h", "")
	testfile.Write(t, root+"/"+dir+"/include/config/auto.conf", "CONFIG_MODULES=y\nCONFIG_MODULE_SIG_HASH=\"sha256\"\nCONFIG_CC_VERSION_TEXT=\""+debianText+"\"\n")
	testfile.Write(t, root+"/"+dir+"/Module.symvers", "0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\n")
}

// sourceTree writes the files of the plain part of a tree.
func sourceTree(t *testing.T, root, dir string) {
	t.Helper()
	testfile.Write(t, root+"/"+dir+"/include/linux/module.h", "")
}

// debianTree writes Debian's split tree: two folders, scripts elsewhere, links in /lib/modules, all absolute.
func debianTree(t *testing.T, root string) {
	t.Helper()
	own, common := "usr/src/linux-headers-"+release, "usr/src/linux-headers-6.1.0-56-common"
	outputTree(t, root, own, release)
	testfile.Write(t, root+"/"+own+"/include/config/kernel.release", "6.1.192\n") // as in Debian's packages
	testfile.Write(t, root+"/"+own+"/Makefile", "include /"+common+"/Makefile\n")
	testfile.Write(t, root+"/"+own+"/scripts", "-> ../../lib/linux-kbuild-6.1/scripts")
	testfile.Write(t, root+"/usr/lib/linux-kbuild-6.1/scripts/mod/modpost", "#!")
	sourceTree(t, root, common)
	testfile.Write(t, root+"/"+common+"/Makefile", "# top\n")
	testfile.Write(t, root+"/usr/lib/modules/"+release+"/build", "-> /"+own)
	testfile.Write(t, root+"/usr/lib/modules/"+release+"/source", "-> /"+common)
	testfile.Write(t, root+"/lib", "-> usr/lib")
}

// wholeTree writes a tree in one folder, like Red Hat's.
func wholeTree(t *testing.T, root, dir, release string) {
	t.Helper()
	outputTree(t, root, dir, release)
	sourceTree(t, root, dir)
	testfile.Write(t, root+"/"+dir+"/Makefile", "# top\n")
	testfile.Write(t, root+"/"+dir+"/scripts/mod/modpost", "#!")
}

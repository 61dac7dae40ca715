package imagetest

import (
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// The kernels of rocky9 in a world, newest first, and the kernel of openSUSE. RPMOrphanKernel has
// headers only, no kernel package.
const (
	RPMKernel       = "5.14.0-503.11.1.el9_5.x86_64"
	RPMRTKernel     = "5.14.0-503.10.1.el9_5.x86_64+rt"
	RPMOldKernel    = "5.14.0-427.13.1.el9_4.x86_64"
	RPMOrphanKernel = "5.14.0-362.8.1.el9_3.x86_64"
	SUSEKernel      = "6.4.0-150600.23.25-default"
	CentOSKernel    = "3.10.0-1160.el7.x86_64"
)

// RPMKey is the path of the key in the bases.
const RPMKey = "etc/pki/rpm-gpg/RPM-GPG-KEY-test"

// rpmsOf returns packages, for amd64.
func rpmsOf(text string, values ...string) (all []repotest.RPM) {
	for _, d := range packagesOf(text, "amd64", values...) {
		all = append(all, d.rpm())
	}
	return all
}

const rpmDocuments = `
	usr/share/licenses/$NAME/
	usr/share/licenses/$NAME/LICENSE = free
	usr/share/doc/$NAME/README = read me
	usr/share/man/man1/$NAME.1.gz = manual
`

// documented returns packages with a licence and documentation.
func documented(text string, values ...string) []repotest.RPM {
	all := rpmsOf(text, values...)
	for i := range all {
		all[i].Files = append(all[i].Files, filesOf(rpmDocuments, "", "$NAME", all[i].Name)...)
	}
	return all
}

const rpmRelease = `
package $ID-release 9.4-1$DIST
	Arch: noarch
	Provides: system-release = 9.4-1
	Provides: system-release(releasever) = 9
`

// rpmInstalled are the packages of every base: a shell, a C library and a program whose package a
// newer one obsoletes. The C library is where real packages have it: below a link of the base.
const rpmInstalled = `
package glibc 2.34-60$DIST
	Provides: libc.so.6()(64bit)
	lib64/libc.so.6 xlib libc.so.6 note=old
	lib64/libold.so.1 xlib libold.so.1
	usr/sbin/ldconfig elf
package bash 5.1.8-9$DIST
	Requires: libc.so.6()(64bit)
	usr/bin/bash elf
	usr/bin/sh -> bash
package coreutils 8.32-34$DIST
	Requires: libc.so.6()(64bit)
	usr/bin/mkdir elf
	usr/bin/cat elf
	usr/bin/mv elf
	usr/bin/rm elf
package mawk 1.3-1$DIST
	usr/bin/mawk elf
	usr/share/shared.txt = shared
package shared 1-1$DIST
	usr/share/shared.txt = shared
`

const rpmRoot = `
	bin -> usr/bin
	sbin -> usr/sbin
	lib -> usr/lib
	lib64 -> usr/lib64
`

// rpmToolchain are the packages that every compiler needs, among them a newer C library than the
// base has.
const rpmToolchain = `
package glibc 2.34-100$DIST
	Provides: libc.so.6()(64bit)
	lib64/libc.so.6 xlib libc.so.6 note=new
	usr/sbin/ldconfig elf
package cpp 11.4.1-3$DIST
	usr/bin/cpp elf
	usr/bin/ld elf
package glibc-devel 2.34-100$DIST
	Requires: glibc = 2.34-100$DIST
	usr/include/stdio.h = /* */
`

// rpmTools are the packages of distros.Distro.Toolchain. SUSE's compiler has a version in its names.
var rpmTools = []template{
	{"gcc7", `
package gcc7 11.4.1-3$DIST
	Requires: cpp = 11.4.1-3$DIST
	Requires: glibc-devel >= 2.2.90-12
	usr/bin/gcc-7 elf
`},
	{"gcc", `
package $NAME 11.4.1-3$DIST
	Requires: cpp = 11.4.1-3$DIST
	Requires: glibc-devel >= 2.2.90-12
	usr/bin/$NAME elf
	usr/bin/cc -> $NAME
`},
	{"kmod", `
package kmod 28-9$DIST
	Requires: /usr/bin/sh
	Requires: libc.so.6()(64bit)
	usr/bin/newuidmap elf
	usr/bin/kmod elf
	usr/sbin/modprobe -> ../bin/kmod
`},
	{"make", `
package make 1:4.3-8$DIST
	usr/bin/make elf
`},
	{"gawk", `
package gawk 5.1.0-6$DIST
	Requires: (libc.so.6()(64bit) if glibc)
	Obsoletes: mawk < 2
	usr/bin/gawk elf
	usr/bin/awk -> gawk
`},
	{"diffutils", `
package diffutils 3.7-12$DIST
	Arch: noarch
	usr/bin/diff * #!/usr/bin/sh
`},
	{"elfutils-libelf", libelf}, {"libelf", libelf},
	{"", `
package $NAME 4.8-6$DIST
	usr/bin/$NAME elf
`},
}

const libelf = `
package $NAME 0.190-2$DIST
	usr/include/libelf.h = /* */
`

const perl = `
package perl-interpreter 4:5.32.1-481.el9
	usr/bin/perl elf
`

const elHeaders = `
package $NAME-devel $EVR
	Requires: gcc
	Requires: perl-interpreter
	Provides: kernel-devel-uname-r = $RELEASE
	Provides: installonlypkg(kernel)
	usr/src/kernels/$RELEASE/
	usr/src/kernels/$RELEASE/Makefile = all:
	usr/src/kernels/$RELEASE/include/config/auto.conf = CONFIG_MODULE_SIG_HASH="sha256"
	usr/src/kernels/$RELEASE/include/config/kernel.release = $RELEASE
	usr/src/kernels/$RELEASE/include/generated/utsrelease.h = #define UTS_RELEASE "$RELEASE"
	usr/src/kernels/$RELEASE/scripts/mod/modpost * program
`

const elCore = `
package $NAME-core $EVR
	Provides: kernel-uname-r = $RELEASE
	Provides: kernel-core-uname-r = $RELEASE
	Provides: installonlypkg(kernel)
	lib/modules/$RELEASE/vmlinuz = kernel
`

// elKernel describes a kernel and its headers, or what lines say of them. The name has the flavour.
func elKernel(release, name, lines string) string {
	plain, _, _ := strings.Cut(release, "+")
	version := strings.TrimSuffix(plain, ".x86_64")
	return strings.NewReplacer("$NAME", name, "$EVR", version, "$RELEASE", release).Replace(lines)
}

const rhelFiles = `
	etc/os-release = ID="rhel"\nVERSION_ID="9.8"
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/yum.repos.d/ubi.repo = [ubi-9-baseos-rpms]\nname=UBI\nbaseurl=$URL/rhel9/\ngpgkey=file:///$KEY
`

// rhel10Files have the repository with signed modules switched off, as a subscription brings it.
const rhel10Files = `
	etc/os-release = ID="rhel"\nVERSION_ID="10.1"
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/yum.repos.d/ubi.repo = [ubi-10-baseos-rpms]\nname=UBI\nbaseurl=$URL/rhel10/\ngpgkey=file:///$KEY\n\n[rhel-10-for-x86_64-extensions-rpms]\nname=Red Hat\nbaseurl=$URL/extensions/\nenabled=0\ngpgkey=file:///$KEY
`

const azureFiles = `
	etc/os-release = ID=azurelinux\nVERSION_ID="3.0"
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/yum.repos.d/azurelinux-official-base.repo = [azurelinux-official-base]\nname=Base\nbaseurl=$URL/azurelinux3.0/\ngpgkey=file:///$KEY
`

const rockyFiles = `
	usr/lib/os-release = ID="rocky"\nVERSION_ID="9.4"
	etc/os-release -> ../usr/lib/os-release
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/dnf/vars/site = rocky
	etc/yum.repos.d/rocky.repo = [baseos]\nname=BaseOS\nbaseurl=$URL/$site$releasever/\ngpgkey=file:///$KEY
`

const leapFiles = `
	etc/os-release = ID="opensuse-leap"\nVERSION_ID="15.6"
	var/lib/rpm -> ../../usr/lib/sysimage/rpm
	etc/zypp/repos.d/repo-oss.repo = [repo-oss]\nenabled=1\nbaseurl=$URL/opensuse-leap15.6/
	etc/products.d/baseproduct = <product><name>Leap</name><version>15.6</version></product>
`

const suseKernel = `
package kernel-devel 6.4.0-150600.23.25.1
	Arch: noarch
	Provides: kernel-devel = 6.4.0-150600.23.25
	Provides: multiversion(kernel)
	usr/src/linux-6.4.0-150600.23.25/Makefile = all:
package kernel-default-devel 6.4.0-150600.23.25.1
	Provides: kernel-default-devel = 6.4.0-150600.23.25
	Provides: multiversion(kernel)
	Requires: kernel-devel = 6.4.0-150600.23.25
	usr/src/linux-6.4.0-150600.23.25-obj/x86_64/default/Makefile = all:
	usr/src/linux-6.4.0-150600.23.25-obj/x86_64/default/include/config/auto.conf = CONFIG_MODULES=y
package kernel-default 6.4.0-150600.23.25.1
	Provides: kernel-default = 6.4.0-150600.23.25
	Provides: multiversion(kernel)
	usr/lib/modules/6.4.0-150600.23.25-default/vmlinuz = kernel
`

const centosFiles = `
	etc/os-release = ID="centos"\nVERSION_ID="7"
	etc/yum.repos.d/CentOS-Base.repo = [base]\nbaseurl=http://gone.invalid/centos/\ngpgcheck=1
`

// rpmSystem is a system of the family of rpm as NewRPM makes it.
type rpmSystem struct {
	database, dist string // dist is the end of releases
	colour         uint32 // that rpm records
	signed         bool   // the index, which has SHA-512 only; otherwise packages are signed
	files          string // of the system's own
	packages       string // beside the compiler
	row            string // lines of its row in the matrix
}

// rpmSystems are the systems. The bases of rhel9 and rhel10 name repositories with a compiler and
// no kernels; that of azurelinux3.0 does not name Microsoft's repository with NVIDIA's packages, so
// the row of the matrix does; the repository of centos7's own no longer exists.
var rpmSystems = map[string]rpmSystem{
	"rocky9": {
		"sqlite", ".el9", 3, false, rockyFiles,
		perl + elKernel(RPMKernel, "kernel", elHeaders+elCore) +
			elKernel(RPMOldKernel, "kernel", elHeaders+elCore) +
			elKernel(RPMOrphanKernel, "kernel", elHeaders) +
			elKernel(RPMRTKernel, "kernel-rt", elHeaders+elCore),
		"    kernels: [5.14]\n    aliases: [rocky9.4]\n",
	},
	"rhel9":  {"sqlite", ".el9", 3, false, rhelFiles, perl, "    kernels: [5.14]\n"},
	"rhel10": {"sqlite", ".el10", 3, false, rhel10Files, perl, "    kernels: [6.12]\n"},
	"azurelinux3.0": {
		"sqlite", ".azl3", 0, false, azureFiles, perl,
		"    kernels: [6.12]\n    repositories: [{baseurl: [$URL/nvidia/], gpgkey: [/$KEY]}]\n",
	},
	"opensuse-leap15.6": {"ndb", ".1", 0, true, leapFiles, suseKernel, "    kernels: [6.4]\n"},
	"centos7": {
		"bdb", ".el7", 0, false, centosFiles, elKernel(CentOSKernel, "kernel", elHeaders+elCore),
		"    kernels: [3.10]\n    only-these-repositories: true\n" +
			"    repositories: [{baseurl: [$URL/centos7/], gpgkey: [/$KEY]}]\n",
	},
}

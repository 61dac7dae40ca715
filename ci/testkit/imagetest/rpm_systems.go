package imagetest

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
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

// install adds the packages of every base.
func (s *RPMSystem) install() {
	values := []string{"$ID", s.id, "$DIST", s.dist}
	s.Installed = append(rpmsOf(rpmRelease, values...), documented(rpmInstalled, values...)...)
	key := text(RPMKey, repotest.Public(s.world.t, s.world.key))
	s.Files = append(s.Files, filesOf(rpmRoot, "")...)
	s.Files = append(s.Files, key)
	s.Files = append(s.Files, filesOf(s.configuration, "", "$URL", s.world.URL, "$KEY", RPMKey)...)
}

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

// toolchain adds the packages of a compiler.
func (s *RPMSystem) toolchain() {
	s.Packages = append(s.Packages, documented(rpmToolchain, "$DIST", s.dist)...)
	for _, name := range require.Value(distros.Lookup(s.id))(s.world.t).Toolchain("amd64") {
		p := documented(templateFor(rpmTools, name), "$NAME", name, "$DIST", s.dist)[0]
		if name == "kmod" {
			p.Files[0].Caps = "cap_sys_module=ep"
		}
		s.Packages = append(s.Packages, p)
	}
}

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

// elKernel returns a kernel and its headers, or what lines say of them. The name has the flavour.
func elKernel(release, name, lines string) []repotest.RPM {
	plain, _, _ := strings.Cut(release, "+")
	version := strings.TrimSuffix(plain, ".x86_64")
	return rpmsOf(lines, "$NAME", name, "$EVR", version, "$RELEASE", release)
}

const rockyFiles = `
	usr/lib/os-release = ID="rocky"\nVERSION_ID="9.4"
	etc/os-release -> ../usr/lib/os-release
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/dnf/vars/site = rocky
	etc/yum.repos.d/rocky.repo = [baseos]\nname=BaseOS\nbaseurl=$URL/$site$releasever/\ngpgkey=file:///$KEY
`

func rocky(w *World) *RPMSystem {
	s := w.newRPMSystem("rocky9", "sqlite", ".el9", rockyFiles)
	s.Row = "    kernels: [5.14]\n    aliases: [rocky9.4]\n"
	s.Colour = 3
	s.Packages = append(s.Packages, documented(perl)...)
	s.Packages = append(s.Packages, elKernel(RPMKernel, "kernel", elHeaders+elCore)...)
	s.Packages = append(s.Packages, elKernel(RPMOldKernel, "kernel", elHeaders+elCore)...)
	s.Packages = append(s.Packages, elKernel(RPMOrphanKernel, "kernel", elHeaders)...)
	s.Packages = append(s.Packages, elKernel(RPMRTKernel, "kernel-rt", elHeaders+elCore)...)
	return s
}

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

func leap(w *World) *RPMSystem {
	s := w.newRPMSystem("opensuse-leap15.6", "ndb", ".1", leapFiles)
	s.Row = "    kernels: [6.4]\n"
	s.Signed = true
	s.SHA512 = true
	s.Packages = append(s.Packages, rpmsOf(suseKernel)...)
	return s
}

const centosFiles = `
	etc/os-release = ID="centos"\nVERSION_ID="7"
	etc/yum.repos.d/CentOS-Base.repo = [base]\nbaseurl=http://gone.invalid/centos/\ngpgcheck=1
`

func centos(w *World) *RPMSystem {
	s := w.newRPMSystem("centos7", "bdb", ".el7", centosFiles)
	s.Row = fmt.Sprintf("    kernels: [3.10]\n    only-these-repositories: true\n    repositories:\n      - baseurl: [%s/centos7/]\n        gpgkey: [/%s]\n", w.URL, RPMKey)
	s.Packages = append(s.Packages, elKernel(CentOSKernel, "kernel", elHeaders+elCore)...)
	return s
}

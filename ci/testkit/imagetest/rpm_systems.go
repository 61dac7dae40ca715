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

func rpmProgram(name string) repotest.File {
	return program(name, "amd64", name)
}

// rpmLibrary is the path of the C library in real packages: below a link of the base.
func rpmLibrary(soname, note string) repotest.File {
	return repotest.File{Name: "lib64/" + soname, Mode: 0o755, Body: string(ELF{Soname: soname, Arch: "amd64", Note: note}.Bytes())}
}

// rpmPackage returns a package with a licence and documentation.
func rpmPackage(name, evr string, requires []string, files ...repotest.File) repotest.RPM {
	return repotest.RPM{Name: name, EVR: evr, Requires: requires, Files: append(files,
		repotest.File{Name: "usr/share/licenses/" + name + "/"}, text("usr/share/licenses/"+name+"/LICENSE", "free\n"),
		text("usr/share/doc/"+name+"/README", "read me\n"), text("usr/share/man/man1/"+name+".1.gz", "manual\n"))}
}

// install adds the packages of every base: a shell, a C library and a program whose package a newer
// one obsoletes.
func (s *RPMSystem) install(dist string) {
	release := repotest.RPM{Name: s.id + "-release", EVR: "9.4-1" + dist, Arch: "noarch", Provides: []string{"system-release = 9.4-1", "system-release(releasever) = 9"}}
	glibc := rpmPackage("glibc", "2.34-60"+dist, nil, rpmLibrary("libc.so.6", "old"), rpmLibrary("libold.so.1", ""), rpmProgram("usr/sbin/ldconfig"))
	glibc.Provides = []string{"libc.so.6()(64bit)"}
	s.Installed = append(s.Installed, release, glibc,
		rpmPackage("bash", "5.1.8-9"+dist, []string{"libc.so.6()(64bit)"}, rpmProgram("usr/bin/bash"), link("usr/bin/sh", "bash")),
		rpmPackage("coreutils", "8.32-34"+dist, []string{"libc.so.6()(64bit)"}, rpmProgram("usr/bin/mkdir"), rpmProgram("usr/bin/cat"), rpmProgram("usr/bin/mv"), rpmProgram("usr/bin/rm")),
		rpmPackage("mawk", "1.3-1"+dist, nil, rpmProgram("usr/bin/mawk"), text("usr/share/shared.txt", "shared\n")),
		rpmPackage("shared", "1-1"+dist, nil, text("usr/share/shared.txt", "shared\n")))
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		s.Files = append(s.Files, link(dir, "usr/"+dir))
	}
	s.Files = append(s.Files, text(RPMKey, repotest.Public(s.world.t, s.world.key)))
}

// toolchain adds the packages of distros.Distro.Toolchain and their dependencies, among them a
// newer C library than the base has.
func (s *RPMSystem) toolchain(dist string) {
	d := require.Value(distros.Lookup(s.id))(s.world.t)
	newest := "2.34-100" + dist
	glibc := rpmPackage("glibc", newest, nil, rpmLibrary("libc.so.6", "new"), rpmProgram("usr/sbin/ldconfig"))
	glibc.Provides = []string{"libc.so.6()(64bit)"}
	s.Packages = append(s.Packages, glibc, rpmPackage("cpp", "11.4.1-3"+dist, nil, rpmProgram("usr/bin/cpp"), rpmProgram("usr/bin/ld")),
		rpmPackage("glibc-devel", newest, []string{"glibc = " + newest}, text("usr/include/stdio.h", "/* */\n")))
	for _, name := range d.Toolchain("amd64") {
		var p repotest.RPM
		switch {
		case strings.HasPrefix(name, "gcc"): // SUSE's has a version in its names
			program := strings.Replace(name, "gcc", "gcc-", 1)
			p = rpmPackage(name, "11.4.1-3"+dist, []string{"cpp = 11.4.1-3" + dist, "glibc-devel >= 2.2.90-12"}, rpmProgram("usr/bin/"+strings.TrimSuffix(program, "-")))
			if name == "gcc" {
				p.Files = append(p.Files, link("usr/bin/cc", "gcc"))
			}
		case name == "kmod":
			p = rpmPackage(name, "28-9"+dist, []string{"/usr/bin/sh", "libc.so.6()(64bit)"}, rpmProgram("usr/bin/newuidmap"), rpmProgram("usr/bin/kmod"), link("usr/sbin/modprobe", "../bin/kmod"))
			p.Files[0].Caps = "cap_sys_module=ep"
		case name == "make":
			p = rpmPackage(name, "1:4.3-8"+dist, nil, rpmProgram("usr/bin/make"))
		case name == "gawk":
			p = rpmPackage(name, "5.1.0-6"+dist, []string{"(libc.so.6()(64bit) if glibc)"}, rpmProgram("usr/bin/gawk"), link("usr/bin/awk", "gawk"))
			p.Obsoletes = []string{"mawk < 2"}
		case name == "diffutils":
			p = rpmPackage(name, "3.7-12"+dist, nil, repotest.File{Name: "usr/bin/diff", Mode: 0o755, Body: "#!/usr/bin/sh\n"})
			p.Arch = "noarch"
		case strings.Contains(name, "libelf"):
			p = rpmPackage(name, "0.190-2"+dist, nil, text("usr/include/libelf.h", "/* */\n"))
		default:
			p = rpmPackage(name, "4.8-6"+dist, nil, rpmProgram("usr/bin/"+name))
		}
		s.Packages = append(s.Packages, p)
	}
}

// elKernel returns a kernel's headers and, unless it is an orphan, the kernel. flavour is "" or
// "rt".
func elKernel(release, flavour string, orphan bool) []repotest.RPM {
	plain, _, _ := strings.Cut(release, "+")
	version := strings.TrimSuffix(plain, ".x86_64")
	name := "kernel"
	if flavour != "" {
		name += "-" + flavour
	}
	tree := "usr/src/kernels/" + release + "/"
	headers := repotest.RPM{
		Name: name + "-devel", EVR: version, Requires: []string{"gcc", "perl-interpreter"},
		Provides: []string{"kernel-devel-uname-r = " + release, "installonlypkg(kernel)"},
		Files: []repotest.File{{Name: tree}, text(tree+"Makefile", "all:\n"), text(tree+"include/config/auto.conf", "CONFIG_MODULE_SIG_HASH=\"sha256\"\n"),
			text(tree+"include/config/kernel.release", release+"\n"),
			text(tree+"include/generated/utsrelease.h", "#define UTS_RELEASE \""+release+"\"\n"),
			{Name: tree + "scripts/mod/modpost", Body: "program", Mode: 0o755}},
	}
	if orphan {
		return []repotest.RPM{headers}
	}
	return []repotest.RPM{headers, {
		Name: name + "-core", EVR: version, Provides: []string{"kernel-uname-r = " + release, "kernel-core-uname-r = " + release, "installonlypkg(kernel)"},
		Files: []repotest.File{text("lib/modules/"+release+"/vmlinuz", "kernel")},
	}}
}

func rocky(w *World) *RPMSystem {
	s := w.newRPMSystem("rocky9", "sqlite")
	s.Row = "    kernels: [5.14]\n    aliases: [rocky9.4]\n"
	s.Colour = 3
	s.install(".el9")
	s.Files = append(s.Files,
		text("usr/lib/os-release", "ID=\"rocky\"\nVERSION_ID=\"9.4\"\n"), link("etc/os-release", "../usr/lib/os-release"),
		text("etc/dnf/dnf.conf", "[main]\ngpgcheck=1\n"), text("etc/dnf/vars/site", "rocky\n"),
		text("etc/yum.repos.d/rocky.repo", fmt.Sprintf("[baseos]\nname=BaseOS\nbaseurl=%s/$site$releasever/\ngpgkey=file:///%s\n", w.URL, RPMKey)))
	s.toolchain(".el9")
	s.Packages = append(s.Packages, rpmPackage("perl-interpreter", "4:5.32.1-481.el9", nil, rpmProgram("usr/bin/perl")))
	for _, release := range []string{RPMKernel, RPMOldKernel, RPMOrphanKernel} {
		s.Packages = append(s.Packages, elKernel(release, "", release == RPMOrphanKernel)...)
	}
	s.Packages = append(s.Packages, elKernel(RPMRTKernel, "rt", false)...)
	return s
}

func leap(w *World) *RPMSystem {
	s := w.newRPMSystem("opensuse-leap15.6", "ndb")
	s.Row = "    kernels: [6.4]\n"
	s.Signed = true
	s.SHA512 = true
	s.install(".1")
	s.Files = append(s.Files,
		text("etc/os-release", "ID=\"opensuse-leap\"\nVERSION_ID=\"15.6\"\n"), link("var/lib/rpm", "../../usr/lib/sysimage/rpm"),
		text("etc/zypp/repos.d/repo-oss.repo", fmt.Sprintf("[repo-oss]\nenabled=1\nbaseurl=%s/opensuse-leap15.6/\n", w.URL)),
		text("etc/products.d/baseproduct", "<product><name>Leap</name><version>15.6</version></product>\n"))
	s.toolchain(".1")
	const version, tree = "6.4.0-150600.23.25", "usr/src/linux-6.4.0-150600.23.25-obj/x86_64/default/"
	s.Packages = append(s.Packages,
		repotest.RPM{Name: "kernel-devel", EVR: version + ".1", Arch: "noarch", Provides: []string{"kernel-devel = " + version, "multiversion(kernel)"},
			Files: []repotest.File{text("usr/src/linux-"+version+"/Makefile", "all:\n")}},
		repotest.RPM{Name: "kernel-default-devel", EVR: version + ".1", Provides: []string{"kernel-default-devel = " + version, "multiversion(kernel)"}, Requires: []string{"kernel-devel = " + version},
			Files: []repotest.File{text(tree+"Makefile", "all:\n"), text(tree+"include/config/auto.conf", "CONFIG_MODULES=y\n")}},
		repotest.RPM{Name: "kernel-default", EVR: version + ".1", Provides: []string{"kernel-default = " + version, "multiversion(kernel)"},
			Files: []repotest.File{text("usr/lib/modules/"+SUSEKernel+"/vmlinuz", "kernel")}})
	return s
}

func centos(w *World) *RPMSystem {
	s := w.newRPMSystem("centos7", "bdb")
	s.Row = fmt.Sprintf("    kernels: [3.10]\n    only-these-repositories: true\n    repositories:\n      - baseurl: [%s/centos7/]\n        gpgkey: [/%s]\n", w.URL, RPMKey)
	s.install(".el7")
	s.Files = append(s.Files, text("etc/os-release", "ID=\"centos\"\nVERSION_ID=\"7\"\n"),
		text("etc/yum.repos.d/CentOS-Base.repo", "[base]\nbaseurl=http://gone.invalid/centos/\ngpgcheck=1\n"))
	s.toolchain(".el7")
	s.Packages = append(s.Packages, elKernel(CentOSKernel, "", false)...)
	return s
}

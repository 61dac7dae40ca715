package realrepo

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// software is an rpm package made of Debian packages.
type software struct {
	name string   // name in the family of RHEL
	suse string   // name in SUSE's systems, if it differs
	debs []string // the first one has the version
	base bool     // installed in bases
	// required in addition to the libraries of its programs; names in the family of RHEL, files, rich
	// dependencies
	needs    []string
	provides []string // in addition to its name, its files and its libraries
	files    []File   // in addition to Debian's, such as links that alternatives would make
	plain    bool     // rpm looks for no dependencies in it
}

// catalogue returns what a driver's image needs to compile kernel modules, with all dependencies: each
// library that a program is linked with is in it.
func catalogue() []software {
	return []software{
		{name: "glibc", debs: []string{"libc6"}, base: true,
			needs:    []string{"glibc-common", "filesystem", "(glibc-gconv-extra if redhat-rpm-config)"},
			provides: []string{"rtld(GNU_HASH)", "/sbin/ldconfig"}},
		{name: "glibc-common", suse: "glibc-locale-base", debs: []string{"libc-bin"}, base: true, needs: []string{"filesystem"},
			files: []File{{Path: "/etc/ld.so.cache", Ghost: true}}},
		{name: "libgcc", suse: "libgcc_s1", debs: []string{"libgcc-s1"}, base: true},
		{name: "bash", debs: []string{"bash"}, base: true, needs: []string{"filesystem"}, provides: []string{"/bin/sh", "/bin/bash"},
			files: link("/usr/bin/sh", "bash")},
		{name: "ncurses-base", suse: "terminfo-base", debs: []string{"ncurses-base"}, base: true},
		{name: "ncurses-libs", suse: "libncurses6", debs: []string{"libtinfo6"}, base: true, needs: []string{"ncurses-base"}},
		{name: "coreutils", debs: []string{"coreutils"}, base: true},
		{name: "gmp", suse: "libgmp10", debs: []string{"libgmp10"}, base: true},
		{name: "libselinux", suse: "libselinux1", debs: []string{"libselinux1"}, base: true},
		{name: "pcre2", suse: "libpcre2-8-0", debs: []string{"libpcre2-8-0"}, base: true},
		{name: "libattr", suse: "libattr1", debs: []string{"libattr1"}, base: true},
		{name: "libacl", suse: "libacl1", debs: []string{"libacl1"}, base: true},
		{name: "sed", debs: []string{"sed"}, base: true, provides: []string{"/bin/sed"}},
		{name: "grep", debs: []string{"grep"}, base: true, provides: []string{"/bin/grep"}},
		{name: "gawk", debs: []string{"gawk"}, base: true, files: link("/usr/bin/awk", "gawk"), provides: []string{"/bin/awk"}},
		{name: "mpfr", suse: "libmpfr6", debs: []string{"libmpfr6"}, base: true},
		{name: "readline", suse: "libreadline8", debs: []string{"libreadline8"}, base: true},
		{name: "libsigsegv", suse: "libsigsegv2", debs: []string{"libsigsegv2"}, base: true},
		{name: "xz-libs", suse: "liblzma5", debs: []string{"liblzma5"}, base: true},
		{name: "zlib", suse: "libz1", debs: []string{"zlib1g"}, base: true},
		{name: "libzstd", suse: "libzstd1", debs: []string{"libzstd1"}, base: true},
		{name: "libxcrypt", suse: "libcrypt1", debs: []string{"libcrypt1"}, base: true},
		{name: "findutils", debs: []string{"findutils"}},
		{name: "diffutils", debs: []string{"diffutils"}},
		{name: "tar", debs: []string{"tar"}},
		{name: "gzip", debs: []string{"gzip"}},
		{name: "xz", debs: []string{"xz-utils"}},
		{name: "openssl-libs", suse: "libopenssl3", debs: []string{"libssl3"}, base: true},
		// Debian's nvidia-persistenced is linked with libtirpc; NVIDIA's own contains that library.
		{name: "libtirpc", suse: "libtirpc3", debs: []string{"libtirpc3"}, base: true},
		{name: "krb5-libs", suse: "krb5", debs: []string{"libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0"}, base: true},
		{name: "libcom_err", suse: "libcom_err2", debs: []string{"libcom-err2"}, base: true},
		{name: "keyutils-libs", suse: "libkeyutils1", debs: []string{"libkeyutils1"}, base: true},
		{name: "kmod", debs: []string{"kmod"}, provides: []string{"/sbin/modprobe"}, needs: []string{"/usr/bin/bash"}},
		{name: "kmod-libs", suse: "libkmod2", debs: []string{"libkmod2"}},
		{name: "make", debs: []string{"make"}, provides: []string{"gnumake"}},
		{name: "elfutils-libelf", suse: "libelf1", debs: []string{"libelf1"}},
		{name: "elfutils-libelf-devel", suse: "libelf-devel", debs: []string{"libelf-dev"}, needs: []string{"elfutils-libelf", "zlib-devel"}},
		{name: "zlib-devel", debs: []string{"zlib1g-dev"}, needs: []string{"zlib"}},
		{name: "pkgconf-pkg-config", suse: "pkg-config", debs: []string{"pkgconf-bin"}, files: link("/usr/bin/pkg-config", "pkgconf")},
		{name: "libpkgconf", suse: "libpkgconf3", debs: []string{"libpkgconf3"}},
		{name: "binutils", debs: []string{"binutils", "binutils-x86-64-linux-gnu", "binutils-common", "libbinutils", "libctf0", "libctf-nobfd0"},
			needs: []string{"coreutils"}},
		{name: "jansson", suse: "libjansson4", debs: []string{"libjansson4"}},
		{name: "cpp", suse: "cpp7", debs: []string{"cpp-12", "cpp"}, needs: []string{"filesystem"}},
		{name: "isl", suse: "libisl23", debs: []string{"libisl23"}},
		{name: "libmpc", suse: "libmpc3", debs: []string{"libmpc3"}},
		{name: "libgomp", suse: "libgomp1", debs: []string{"libgomp1"}},
		{name: "gcc", suse: "gcc7", debs: []string{"gcc-12", "gcc", "libgcc-12-dev"}, files: link("/usr/bin/cc", "gcc"),
			needs:    []string{"cpp = %{EVR}", "binutils >= 2.24", "glibc-devel >= 2.17", "libgomp", "make", "(diffutils or busybox)"},
			provides: []string{"bundled(libiberty)", "gcc(major) = 12"}},
		{name: "glibc-devel", debs: []string{"libc6-dev"}, needs: []string{"glibc = %{EVR}", "kernel-headers >= 3.2", "libxcrypt-devel"},
			provides: []string{"glibc-headers = %{EVR}"}},
		{name: "libxcrypt-devel", debs: []string{"libcrypt-dev"}, needs: []string{"libxcrypt"}},
		{name: "kernel-headers", suse: "linux-glibc-devel", debs: []string{"linux-libc-dev"}},
		{name: "perl-interpreter", suse: "perl-base", debs: []string{"perl-base"}, plain: true,
			needs: []string{"libxcrypt", "glibc"}, provides: []string{"perl(Carp)", "perl(strict)", "perl(:VERSION) = 5.36.0", "perl = 4:5.36.0"}},
	}
}

func link(path, target string) []File {
	return []File{{Path: path, Body: target, Mode: fs.ModeSymlink}}
}

// contents returns the folder of the unpacked Debian packages, which all systems share: a folder for each
// piece of software.
func contents(t testing.TB, debs []deb) string {
	t.Helper()
	return keep(t, "contents", []string{recipe, fmt.Sprint(catalogue(), debs, unused, unpackScript)}, func(dir string) {
		files := t.TempDir()
		download(t, debs, files)
		for _, s := range catalogue() {
			tree := testfile.Write(t, filepath.Join(dir, s.name)+"/", "")
			for _, d := range debs {
				if slices.Contains(s.debs, d.name) {
					tool.Must(t, "sh", "-ec", unpackScript, "sh", filepath.Join(files, d.file), tree, unused)
				}
			}
		}
	})
}

// software returns the packages of the catalogue, with the system's names: those of the base, and others.
func (s system) software(t testing.TB, debs []deb) (base, more []Package) {
	t.Helper()
	trees, names := contents(t, debs), map[string]string{}
	for _, c := range catalogue() {
		if names[c.name] = c.name; s.suse && c.suse != "" {
			names[c.name] = c.suse
		}
	}
	for _, c := range catalogue() {
		i := slices.IndexFunc(debs, func(d deb) bool { return d.name == c.debs[0] })
		p := Package{
			Name: names[c.name], Version: versionOf(debs[i].version) + s.dist, Payload: s.payload, Libraries: !c.plain,
			Tree: filepath.Join(trees, c.name), Files: c.files,
		}
		for _, provided := range c.provides {
			p.Provides = append(p.Provides, strings.ReplaceAll(provided, "%{EVR}", p.Version))
		}
		for _, need := range c.needs {
			if name, rest, _ := strings.Cut(need, " "); names[name] != "" {
				need = strings.TrimSpace(names[name] + " " + rest)
			}
			p.Requires = append(p.Requires, strings.ReplaceAll(need, "%{EVR}", p.Version))
		}
		if c.base {
			base = append(base, p)
		} else {
			more = append(more, p)
		}
	}
	return base, more
}

// versionOf returns Debian's version, [epoch:]upstream-revision, with the characters that rpm allows.
func versionOf(debian string) string {
	version, release := debian, "1"
	if i := strings.LastIndexByte(debian, '-'); i >= 0 {
		version, release = debian[:i], debian[i+1:]
	}
	clean := strings.NewReplacer("-", ".", "+", ".")
	return clean.Replace(version) + "-" + clean.Replace(release)
}

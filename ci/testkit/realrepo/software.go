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

// product is an rpm package made of Debian packages.
type product struct {
	name string
	debs []string // the first one has the version
	base bool     // installed in bases
	// required in addition to the libraries of its programs
	needs    []string
	provides []string // in addition to its name, its files and its libraries
	files    []File   // in addition to Debian's, such as links that alternatives would make
	plain    bool     // rpm looks for no dependencies in it
}

// catalogue returns what a driver's image needs to compile kernel modules, with all dependencies:
// each library that a program is linked with is in it.
func catalogue() []product {
	return []product{
		{name: "glibc", debs: []string{"libc6"}, base: true,
			needs:    []string{"glibc-common", "filesystem", "(glibc-gconv-extra if redhat-rpm-config)"},
			provides: []string{"rtld(GNU_HASH)", "/sbin/ldconfig"}},
		{name: "glibc-common", debs: []string{"libc-bin"}, base: true, needs: []string{"filesystem"},
			files: []File{{Path: "/etc/ld.so.cache", Ghost: true}}},
		{name: "libgcc", debs: []string{"libgcc-s1"}, base: true},
		{name: "bash", debs: []string{"bash"}, base: true, needs: []string{"filesystem"}, provides: []string{"/bin/sh", "/bin/bash"},
			files: link("/usr/bin/sh", "bash")},
		{name: "ncurses-base", debs: []string{"ncurses-base"}, base: true},
		{name: "ncurses-libs", debs: []string{"libtinfo6"}, base: true, needs: []string{"ncurses-base"}},
		{name: "coreutils", debs: []string{"coreutils"}, base: true},
		{name: "gmp", debs: []string{"libgmp10"}, base: true},
		{name: "libselinux", debs: []string{"libselinux1"}, base: true},
		{name: "pcre2", debs: []string{"libpcre2-8-0"}, base: true},
		{name: "libattr", debs: []string{"libattr1"}, base: true},
		{name: "libacl", debs: []string{"libacl1"}, base: true},
		{name: "sed", debs: []string{"sed"}, base: true, provides: []string{"/bin/sed"}},
		{name: "grep", debs: []string{"grep"}, base: true, provides: []string{"/bin/grep"}},
		{name: "gawk", debs: []string{"gawk"}, base: true, files: link("/usr/bin/awk", "gawk"), provides: []string{"/bin/awk"}},
		{name: "mpfr", debs: []string{"libmpfr6"}, base: true},
		{name: "readline", debs: []string{"libreadline8"}, base: true},
		{name: "libsigsegv", debs: []string{"libsigsegv2"}, base: true},
		{name: "xz-libs", debs: []string{"liblzma5"}, base: true},
		{name: "zlib", debs: []string{"zlib1g"}, base: true},
		{name: "libzstd", debs: []string{"libzstd1"}, base: true},
		{name: "libxcrypt", debs: []string{"libcrypt1"}, base: true},
		{name: "findutils", debs: []string{"findutils"}},
		{name: "diffutils", debs: []string{"diffutils"}},
		{name: "tar", debs: []string{"tar"}},
		{name: "gzip", debs: []string{"gzip"}},
		{name: "xz", debs: []string{"xz-utils"}},
		{name: "openssl-libs", debs: []string{"libssl3"}, base: true},
		// Debian's nvidia-persistenced is linked with libtirpc; NVIDIA's own contains that library.
		{name: "libtirpc", debs: []string{"libtirpc3"}, base: true},
		{name: "krb5-libs", debs: []string{"libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0"}, base: true},
		{name: "libcom_err", debs: []string{"libcom-err2"}, base: true},
		{name: "keyutils-libs", debs: []string{"libkeyutils1"}, base: true},
		{name: "kmod", debs: []string{"kmod"}, provides: []string{"/sbin/modprobe"}, needs: []string{"/usr/bin/bash"}},
		{name: "kmod-libs", debs: []string{"libkmod2"}},
		{name: "make", debs: []string{"make"}, provides: []string{"gnumake"}},
		{name: "elfutils-libelf", debs: []string{"libelf1"}},
		{name: "elfutils-libelf-devel", debs: []string{"libelf-dev"}, needs: []string{"elfutils-libelf", "zlib-devel"}},
		{name: "zlib-devel", debs: []string{"zlib1g-dev"}, needs: []string{"zlib"}},
		{name: "pkgconf-pkg-config", debs: []string{"pkgconf-bin"}, files: link("/usr/bin/pkg-config", "pkgconf")},
		{name: "libpkgconf", debs: []string{"libpkgconf3"}},
		{name: "binutils", debs: []string{"binutils", "binutils-x86-64-linux-gnu", "binutils-common", "libbinutils", "libctf0", "libctf-nobfd0"},
			needs: []string{"coreutils"}},
		{name: "jansson", debs: []string{"libjansson4"}},
		{name: "cpp", debs: []string{"cpp-12", "cpp"}, needs: []string{"filesystem"}},
		{name: "isl", debs: []string{"libisl23"}},
		{name: "libmpc", debs: []string{"libmpc3"}},
		{name: "libgomp", debs: []string{"libgomp1"}},
		{name: "gcc", debs: []string{"gcc-12", "gcc", "libgcc-12-dev"}, files: link("/usr/bin/cc", "gcc"),
			needs:    []string{"cpp = %{EVR}", "binutils >= 2.24", "glibc-devel >= 2.17", "libgomp", "make", "(diffutils or busybox)"},
			provides: []string{"bundled(libiberty)", "gcc(major) = 12"}},
		{name: "glibc-devel", debs: []string{"libc6-dev"}, needs: []string{"glibc = %{EVR}", "kernel-headers >= 3.2", "libxcrypt-devel"},
			provides: []string{"glibc-headers = %{EVR}"}},
		{name: "libxcrypt-devel", debs: []string{"libcrypt-dev"}, needs: []string{"libxcrypt"}},
		{name: "kernel-headers", debs: []string{"linux-libc-dev"}},
		{name: "perl-interpreter", debs: []string{"perl-base"}, plain: true,
			needs: []string{"libxcrypt", "glibc"}, provides: []string{"perl(Carp)", "perl(strict)", "perl(:VERSION) = 5.36.0", "perl = 4:5.36.0"}},
	}
}

func link(path, target string) []File {
	return []File{{Path: path, Body: target, Mode: fs.ModeSymlink}}
}

// contents returns the folder of the unpacked Debian packages: a folder for each product.
func contents(t testing.TB, debs []deb) string {
	t.Helper()
	return keep(
		t,
		"contents",
		[]string{recipe, fmt.Sprint(catalogue(), debs, unused, unpackScript)},
		func(dir string) {
			files := t.TempDir()
			download(t, debs, files)
			for _, s := range catalogue() {
				tree := testfile.Write(t, filepath.Join(dir, s.name)+"/", "")
				for _, d := range debs {
					if slices.Contains(s.debs, d.name) {
						tool.Must(
							t,
							"sh",
							"-ec",
							unpackScript,
							"sh",
							filepath.Join(files, d.file),
							tree,
							unused,
						)
					}
				}
			}
		},
	)
}

// software returns the packages of the catalogue: those of the base, and others.
func software(t testing.TB, debs []deb) (base, more []Package) {
	t.Helper()
	trees := contents(t, debs)
	for _, c := range catalogue() {
		i := slices.IndexFunc(debs, func(d deb) bool { return d.name == c.debs[0] })
		p := Package{
			Name: c.name, Version: versionOf(debs[i].version) + dist, Payload: payload, Libraries: !c.plain,
			Tree: filepath.Join(trees, c.name), Files: c.files,
		}
		for _, provided := range c.provides {
			p.Provides = append(p.Provides, strings.ReplaceAll(provided, "%{EVR}", p.Version))
		}
		for _, need := range c.needs {
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

// versionOf returns Debian's version, [epoch:]upstream-revision, with the characters that rpm
// allows.
func versionOf(debian string) string {
	version := debian
	release := "1"
	if i := strings.LastIndexByte(debian, '-'); i >= 0 {
		version = debian[:i]
		release = debian[i+1:]
	}
	clean := strings.NewReplacer("-", ".", "+", ".")
	return clean.Replace(version) + "-" + clean.Replace(release)
}

package rpmrepo

// software is an rpm package made of Debian packages.
type software struct {
	name string   // name in the family of RHEL
	suse string   // name in SUSE's systems, if it differs
	debs []string // the first one has the version
	part part
	base bool // installed in bases
	// required in addition to the libraries of its programs; names in the family of RHEL, files, rich
	// dependencies
	needs    []string
	provides []string          // in addition to its name, its files and its libraries
	links    map[string]string // links that Debian's alternatives would make
	plain    bool              // rpm looks for no dependencies in it
	without  []string          // files that the package does not have in SUSE's systems, whose compilers have versioned names only
	with     map[string]string // links that it has there instead; the compiler's version follows the name
}

// catalogue returns what a driver's image needs to compile kernel modules, with all dependencies: each
// library that a program is linked with is in it.
func catalogue() []software {
	return []software{
		{name: "glibc", debs: []string{"libc6"}, base: true, needs: []string{"glibc-common", "filesystem", "(glibc-gconv-extra if redhat-rpm-config)"},
			provides: []string{"rtld(GNU_HASH)", "/sbin/ldconfig"}},
		{name: "glibc-common", suse: "glibc-locale-base", debs: []string{"libc-bin"}, base: true, needs: []string{"filesystem"}},
		{name: "libgcc", suse: "libgcc_s1", debs: []string{"libgcc-s1"}, base: true},
		{name: "bash", debs: []string{"bash"}, base: true, needs: []string{"filesystem"}, provides: []string{"/bin/sh", "/bin/bash"}, links: map[string]string{"usr/bin/sh": "bash"}},
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
		{name: "gawk", debs: []string{"gawk"}, base: true, links: map[string]string{"usr/bin/awk": "gawk"}, provides: []string{"/bin/awk"}},
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
		{name: "kmod", debs: []string{"kmod"}, provides: []string{"module-init-tools = 4.0-1", "/sbin/modprobe"}, needs: []string{"/usr/bin/bash"}},
		{name: "kmod-libs", suse: "libkmod2", debs: []string{"libkmod2"}},
		{name: "make", debs: []string{"make"}, provides: []string{"gnumake"}},
		{name: "elfutils-libelf", suse: "libelf1", debs: []string{"libelf1"}},
		{name: "elfutils-libelf-devel", suse: "libelf-devel", debs: []string{"libelf-dev"}, part: application, needs: []string{"elfutils-libelf", "zlib-devel"}},
		{name: "zlib-devel", debs: []string{"zlib1g-dev"}, part: application, needs: []string{"zlib"}},
		{name: "pkgconf-pkg-config", suse: "pkg-config", debs: []string{"pkgconf-bin"}, links: map[string]string{"usr/bin/pkg-config": "pkgconf"}, provides: []string{"pkgconfig(pkg-config) = 1.8.1"}},
		{name: "libpkgconf", suse: "libpkgconf3", debs: []string{"libpkgconf3"}},
		{name: "binutils", debs: []string{"binutils", "binutils-x86-64-linux-gnu", "binutils-common", "libbinutils", "libctf0", "libctf-nobfd0"}, part: application,
			needs: []string{"coreutils"}},
		{name: "jansson", suse: "libjansson4", debs: []string{"libjansson4"}},
		{name: "cpp", suse: "cpp", debs: []string{"cpp-12", "cpp"}, part: application, needs: []string{"filesystem"}},
		{name: "isl", suse: "libisl23", debs: []string{"libisl23"}, part: application},
		{name: "libmpc", suse: "libmpc3", debs: []string{"libmpc3"}, part: application},
		{name: "libgomp", suse: "libgomp1", debs: []string{"libgomp1"}},
		{name: "gcc", suse: "gcc", debs: []string{"gcc-12", "gcc", "libgcc-12-dev"}, part: application, links: map[string]string{"usr/bin/cc": "gcc"},
			needs:    []string{"cpp = %{EVR}", "binutils >= 2.24", "glibc-devel >= 2.17", "libgomp", "make", "(diffutils or busybox)"},
			provides: []string{"bundled(libiberty)", "gcc(major) = 12"},
			without:  []string{"usr/bin/gcc", "usr/bin/cc"}, with: map[string]string{"usr/bin/gcc-": "gcc-12"}},
		{name: "glibc-devel", debs: []string{"libc6-dev"}, part: application, needs: []string{"glibc = %{EVR}", "kernel-headers >= 3.2", "libxcrypt-devel"},
			provides: []string{"glibc-headers = %{EVR}"}},
		{name: "libxcrypt-devel", debs: []string{"libcrypt-dev"}, part: application, needs: []string{"libxcrypt"}},
		{name: "kernel-headers", suse: "linux-glibc-devel", debs: []string{"linux-libc-dev"}, part: application},
		{name: "perl-interpreter", suse: "perl-base", debs: []string{"perl-base"}, part: application, plain: true,
			needs: []string{"libxcrypt", "glibc"}, provides: []string{"perl(Carp)", "perl(strict)", "perl(:VERSION) = 5.36.0", "perl = 4:5.36.0"}},
	}
}

// nameIn returns the package's name in a system.
func (s software) nameIn(sys system) string {
	if sys.suse && (s.suse == "gcc" || s.suse == "cpp") {
		return s.suse + sys.gcc
	}
	if sys.suse && s.suse != "" {
		return s.suse
	}
	return s.name
}

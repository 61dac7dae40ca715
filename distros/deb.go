package distros

import "strings"

// deb is a system made of .deb packages. Its zero values are those of a current Debian.
type deb struct {
	family, version string   // as in os-release
	compilers       []string // that its kernels were built with, the usual one first
	elf             string   // package of libelf, which objtool needs
	elfHeaders      bool     // see elfProbe
}

// elfProbe is what the Makefile of kernels 4.14 to 5.18 wants for x86 beyond libelf itself: it links a test program with
// -lelf. If that fails, kernels up to 4.19 stop ("Cannot generate ORC metadata ... please install libelf-dev") and later
// ones build modules without objtool, so without unwind tables, and do not say so.
const elfProbe = "libelf-dev"

func (d deb) ID() string                        { return d.family + d.version }
func (d deb) OSRelease() (id, versionID string) { return d.family, d.version }
func (d deb) PackageManager() string            { return "apt" }

func (d deb) LibDir(arch string) string {
	a, ok := LookupArch(arch)
	if !ok {
		return ""
	}
	return "usr/lib/" + a.Triplet
}

func (d deb) LibDir32(arch string) string {
	a, ok := LookupArch(arch)
	if !ok || a.Compat == "" {
		return ""
	}
	return "usr/lib/" + a.Compat
}

// Toolchain names versioned compilers instead of the package gcc: kernels name the version they want, and Links makes the
// short names. binutils and linux-libc-dev come as dependencies; perl, awk, sed, grep, diff and find, which the kernel's
// and NVIDIA's scripts use, are in every base (essential packages, or dependencies of those). sign-file and
// extract-cert want libssl, but modules are signed without them.
func (d deb) Toolchain(arch string) []string {
	if _, ok := LookupArch(arch); !ok {
		return nil
	}
	packages := append([]string(nil), d.compilers...)
	packages = append(packages, "kmod", "libc6-dev", d.elf, "make")
	if d.elfHeaders && arch == "amd64" {
		packages = append(packages, elfProbe)
	}
	return packages
}

// Headers is one package everywhere: Debian, Ubuntu in all its flavours and the kernel's own "make bindeb-pkg" agree on the
// name. Package names have neither capitals nor underscores nor tildes, so a release with one has no package, and none is made up.
func (d deb) Headers(release string) []string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789.+-"
	if release == "" || len(release) > maxRelease || strings.Trim(release, letters) != "" || release[0] < '0' || release[0] > '9' {
		return nil
	}
	return []string{"linux-headers-" + release}
}

// maxRelease is the kernel's own bound on uname -r, __NEW_UTS_LEN.
const maxRelease = 64

// Links makes cc (by alternatives in a system that ran package scripts) and gcc (of the package gcc).
func (d deb) Links() map[string]string {
	return map[string]string{
		"usr/bin/cc":  "gcc",
		"usr/bin/gcc": d.compilers[0],
	}
}

package distros

import (
	"slices"
	"strings"
)

// deb is a system made of .deb packages. The zero values of its fields are right for a current
// Debian.
type deb struct {
	family, version string   // as in os-release
	compilers       []string // compilers that built its kernels, the usual one first
	elf             string   // package of libelf, which objtool needs
	elfHeaders      bool     // see elfProbe
	oldRuntime      bool     // see ReadsZstd
}

// elfProbe is what the Makefile of kernels 4.14 to 5.18 needs for x86 beyond libelf itself: it
// links a test program with -lelf. If that fails, kernels up to 4.19 stop ("Cannot generate ORC
// metadata ... please install libelf-dev"), and later ones build modules without objtool, so
// without unwind tables, and do not say so.
const elfProbe = "libelf-dev"

func (d deb) ID() string                        { return d.family + d.version }
func (d deb) OSRelease() (id, versionID string) { return d.family, d.version }
func (d deb) PackageManager() string            { return "apt" }
func (d deb) ReadsZstd() bool                   { return !d.oldRuntime }

// Matches compares both values: neither family has minor versions.
func (d deb) Matches(id, versionID string) bool { return id == d.family && versionID == d.version }

func (d deb) LibDir(arch string) string {
	if a, ok := LookupArch(arch); ok {
		return "usr/lib/" + a.Triplet
	}
	return ""
}

func (d deb) LibDir32(arch string) string {
	if a, _ := LookupArch(arch); a.Compat != "" {
		return "usr/lib/" + a.Compat
	}
	return ""
}

// Runtime is kmod. Other programs in the image that look for modprobe in the driver root use it
// too.
func (d deb) Runtime(arch string) []string { return forArch(arch, []string{"kmod"}) }

// Fabric returns the packages of ibstat and zlib.
func (d deb) Fabric(arch string) []string {
	return forArch(arch, []string{"infiniband-diags", "zlib1g"})
}

// Toolchain names versioned compilers instead of the package gcc: kernels name the version they
// need, and Links makes the short names. binutils and linux-libc-dev come as dependencies. perl,
// awk, sed, grep, diff and find, which the kernel's and NVIDIA's scripts use, are in every base
// (essential packages, or dependencies of those). sign-file and extract-cert need libssl, but
// modules are signed without them.
func (d deb) Toolchain(arch string) []string {
	if _, ok := LookupArch(arch); !ok {
		return nil
	}
	packages := append(slices.Clone(d.compilers), d.Runtime(arch)...)
	packages = append(packages, "libc6-dev", d.elf, "make")
	if d.elfHeaders && arch == "amd64" {
		packages = append(packages, elfProbe)
	}
	return packages
}

// Headers returns one package: Debian, all flavours of Ubuntu and the kernel's own "make
// bindeb-pkg" use the same name. Package names have no capitals, underscores or tildes, so a
// release with one of them has no package.
func (d deb) Headers(release string) []string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789.+-"
	return given(
		release != "" && len(release) <= maxRelease && strings.Trim(release, letters) == "" &&
			isDigit(release[0]),
		headersPrefix+release,
	)
}

// KernelOf refuses the packages that Debian's flavours of a release share (-common, -common-rt),
// Debian's old metapackages for all flavours (-all, -all-amd64) and, on Ubuntu, names with a
// package number but no flavour, which are the shared part there.
func (d deb) KernelOf(headersPackage string) (release, flavour string, ok bool) {
	release, ok = strings.CutPrefix(headersPackage, headersPrefix)
	if !ok || d.Headers(release) == nil {
		return "", "", false
	}
	flavour, numbered, ok := splitRelease(release)
	first, _, _ := strings.Cut(flavour, "-")
	if !ok || first == "common" || first == "all" ||
		flavour == "" && numbered && d.family == "ubuntu" {
		return "", "", false
	}
	return release, flavour, true
}

// KernelFlavour is the architecture's name in Debian.
func (d deb) KernelFlavour(arch string) string {
	if d.family == "ubuntu" {
		return forArch(arch, "generic")
	}
	return forArch(arch, arch)
}

// KernelImages returns the signed and the unsigned kernel. Ubuntu puts the word before the release,
// Debian after it.
func (d deb) KernelImages(release string) []string {
	return []string{
		"linux-image-" + release,
		"linux-image-unsigned-" + release,
		"linux-image-" + release + "-unsigned",
	}
}

// KernelParts returns the packages of modules. Debian has them, and linux-binary with the kernel, since
// Linux 6.17 (changelog of its source package linux: "Split kernel modules into own package"). Ubuntu
// has the modules that few machines need in a package of their own.
func (d deb) KernelParts(release string) []string {
	if d.Headers(release) == nil {
		return nil
	}
	return []string{
		"linux-binary-" + release,
		"linux-modules-" + release,
		"linux-modules-extra-" + release,
	}
}

// KernelMeta is the same in both families: "linux-headers-amd64", "linux-headers-generic",
// "linux-headers-aws".
func (d deb) KernelMeta(flavour string) string { return headersPrefix + flavour }

// BuildDirs returns one folder for every flavour. Its Makefile leads to the shared part.
func (d deb) BuildDirs(release string) []string {
	return given(d.Headers(release) != nil, "usr/src/"+headersPrefix+release)
}

// ModulePackages returns the second half of an Ubuntu kernel. Debian's kernels are one package; its
// flavour cloud lacks modules for good.
func (d deb) ModulePackages(release string) []string {
	return given(d.family == "ubuntu" && d.Headers(release) != nil, "linux-modules-extra-"+release)
}

// maxRelease is the kernel's own bound of uname -r, __NEW_UTS_LEN.
const maxRelease = 64

const headersPrefix = "linux-headers-"

// Links returns cc (made by alternatives when package scripts run) and gcc (from the package gcc).
func (d deb) Links() map[string]string {
	return map[string]string{
		"usr/bin/cc":  "gcc",
		"usr/bin/gcc": d.compilers[0],
	}
}

package distros

import (
	"slices"
	"strings"
)

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

// Matches wants both: neither family has minor versions.
func (d deb) Matches(id, versionID string) bool { return id == d.family && versionID == d.version }

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

// Runtime is kmod: modprobe serves the programs of others that look for it in the driver root.
func (d deb) Runtime(arch string) []string {
	if _, ok := LookupArch(arch); !ok {
		return nil
	}
	return []string{"kmod"}
}

// Toolchain names versioned compilers instead of the package gcc: kernels name the version they want, and Links makes the
// short names. binutils and linux-libc-dev come as dependencies; perl, awk, sed, grep, diff and find, which the kernel's
// and NVIDIA's scripts use, are in every base (essential packages, or dependencies of those). sign-file and
// extract-cert want libssl, but modules are signed without them.
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

// Headers is one package everywhere: Debian, Ubuntu in all its flavours and the kernel's own "make bindeb-pkg" agree on the
// name. Package names have neither capitals nor underscores nor tildes, so a release with one has no package, and none is made up.
func (d deb) Headers(release string) []string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789.+-"
	if release == "" || len(release) > maxRelease || strings.Trim(release, letters) != "" || release[0] < '0' || release[0] > '9' {
		return nil
	}
	return []string{headersPrefix + release}
}

// KernelOf leaves out what Debian's flavours of a release share (-common, -common-rt), its old metapackages for all flavours
// (-all, -all-amd64) and, on Ubuntu, what has a number of the package but no flavour: there that is the shared part.
func (d deb) KernelOf(headersPackage string) (release, flavour string, ok bool) {
	release, ok = strings.CutPrefix(headersPackage, headersPrefix)
	if !ok || d.Headers(release) == nil {
		return "", "", false
	}
	flavour, numbered, ok := splitRelease(release)
	first, _, _ := strings.Cut(flavour, "-")
	if !ok || first == "common" || first == "all" || flavour == "" && numbered && d.family == "ubuntu" {
		return "", "", false
	}
	return release, flavour, true
}

// KernelFlavour is named after the architecture in Debian.
func (d deb) KernelFlavour(arch string) string {
	if _, ok := LookupArch(arch); !ok {
		return ""
	}
	if d.family == "ubuntu" {
		return "generic"
	}
	return arch
}

// KernelImages are the signed and the unsigned kernel; Ubuntu puts the word in front of the release, Debian behind it.
func (d deb) KernelImages(release string) []string {
	return []string{"linux-image-" + release, "linux-image-unsigned-" + release, "linux-image-" + release + "-unsigned"}
}

// KernelMeta is the same in both families: "linux-headers-amd64", "linux-headers-generic", "linux-headers-aws".
func (d deb) KernelMeta(flavour string) string { return headersPrefix + flavour }

// BuildDirs is one, whatever the flavour; its Makefile leads to what it shares with others.
func (d deb) BuildDirs(release string) []string {
	if d.Headers(release) == nil {
		return nil
	}
	return []string{"usr/src/" + headersPrefix + release}
}

// ModulePackages is Ubuntu's second half of a kernel. Debian's kernels come in one piece; its flavour cloud lacks modules for good.
func (d deb) ModulePackages(release string) []string {
	if d.family != "ubuntu" || d.Headers(release) == nil {
		return nil
	}
	return []string{"linux-modules-extra-" + release}
}

// maxRelease is the kernel's own bound on uname -r, __NEW_UTS_LEN.
const maxRelease = 64

const headersPrefix = "linux-headers-"

// Links makes cc (by alternatives in a system that ran package scripts) and gcc (of the package gcc).
func (d deb) Links() map[string]string {
	return map[string]string{
		"usr/bin/cc":  "gcc",
		"usr/bin/gcc": d.compilers[0],
	}
}

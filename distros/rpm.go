package distros

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// rpm is the common part of systems made of .rpm packages: everything except the names of their
// kernel packages.
type rpm struct {
	family, version string   // as in os-release
	coversMinors    bool     // VERSION_ID has a minor version, and this system covers all of them
	compilers       []string // packages; the one that built the system's usual kernels first
	elf             string   // package with libelf's headers and link, see elfProbe
	dirs            []string // folders of compilers that are not on the usual path
	links           map[string]string
	noIBStat        bool   // the repositories of the base lack infiniband-diags
	zlibName        string // package; "": zlib
	oldRuntime      bool   // see ReadsZstd
}

func (d rpm) ID() string                        { return d.family + d.version }
func (d rpm) OSRelease() (id, versionID string) { return d.family, d.version }
func (d rpm) PackageManager() string            { return "rpm" }
func (d rpm) ReadsZstd() bool                   { return !d.oldRuntime }
func (d rpm) CompilerDirs() []string            { return slices.Clone(d.dirs) }

// Matches accepts "9" as well as "9.4": CentOS Stream and some images have only the major version.
func (d rpm) Matches(id, versionID string) bool {
	if id != d.family {
		return false
	}
	return versionID == d.version || d.coversMinors && strings.HasPrefix(versionID, d.version+".")
}

// LibDir is lib64 for every 64-bit architecture.
func (d rpm) LibDir(arch string) string { return forArch(arch, "usr/lib64") }

// LibDir32 is lib, which 64-bit programs do not use.
func (d rpm) LibDir32(arch string) string {
	if a, _ := LookupArch(arch); a.Compat != "" {
		return "usr/lib"
	}
	return ""
}

// Runtime is kmod, as elsewhere.
func (d rpm) Runtime(arch string) []string { return forArch(arch, []string{"kmod"}) }

// Distroless returns nothing.
func (d rpm) Distroless(string) Distroless { return Distroless{} }

// Fabric returns the packages of ibstat and zlib, without ibstat where the freely available
// repositories of the base do not have it.
func (d rpm) Fabric(arch string) []string {
	if d.noIBStat {
		return forArch(arch, []string{d.zlib()})
	}
	return forArch(arch, []string{"infiniband-diags", d.zlib()})
}

func (d rpm) zlib() string { return cmp.Or(d.zlibName, "zlib") }

// Toolchain returns the tools that the kernel's and NVIDIA's scripts call and that a slim base
// lacks. The headers of the C library and the assembler come with the compiler. elf is the same for
// all architectures, because the headers packages of el8 and later depend on it.
func (d rpm) Toolchain(arch string) []string {
	if _, ok := LookupArch(arch); !ok {
		return nil
	}
	packages := append(slices.Clone(d.compilers), d.Runtime(arch)...)
	return append(packages, d.elf, "make", "diffutils", "findutils", "gawk")
}

// Links returns few links, because most of these compilers have their short names in their
// packages.
func (d rpm) Links() map[string]string {
	links := map[string]string{}
	maps.Copy(links, d.links)
	return links
}

// KernelOf never returns ok: all kernels of a flavour have the same package name.
func (d rpm) KernelOf(string) (release, flavour string, ok bool) { return "", "", false }

// ExtraRepositories returns nil where the repositories of the base have all kernels.
func (d rpm) ExtraRepositories(string, string) []string { return nil }

// isRelease reports whether a kernel release can be part of a dependency: no blanks, no comparison
// signs.
func isRelease(text string) bool {
	if text == "" || len(text) > maxRelease || !isDigit(text[0]) {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return r >= 0x80 ||
			!isDigit(byte(r)) && !isLetter(byte(r)) && !strings.ContainsRune(".-_+~^", r)
	}) < 0
}

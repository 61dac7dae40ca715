package distros

import (
	"maps"
	"slices"
	"strings"
)

// rpm is what systems made of .rpm packages have in common: all but the names of their kernel packages.
type rpm struct {
	family, version string   // as in os-release
	minors          bool     // VERSION_ID has a minor version, and all of them are this system
	compilers       []string // packages, that which built the system's usual kernels first
	elf             string   // package of libelf's headers and link, see elfProbe
	dirs            []string // of compilers that are not on the usual path
	links           map[string]string
}

func (d rpm) ID() string                        { return d.family + d.version }
func (d rpm) OSRelease() (id, versionID string) { return d.family, d.version }
func (d rpm) PackageManager() string            { return "rpm" }
func (d rpm) CompilerDirs() []string            { return slices.Clone(d.dirs) }

// Matches takes "9" as well as "9.4": CentOS Stream and some images say the major version only.
func (d rpm) Matches(id, versionID string) bool {
	if id != d.family {
		return false
	}
	return versionID == d.version || d.minors && strings.HasPrefix(versionID, d.version+".")
}

// LibDir is lib64 for every 64-bit architecture.
func (d rpm) LibDir(arch string) string {
	if _, ok := LookupArch(arch); !ok {
		return ""
	}
	return "usr/lib64"
}

// LibDir32 is the plain folder, which is free for that.
func (d rpm) LibDir32(arch string) string {
	if a, ok := LookupArch(arch); !ok || a.Compat == "" {
		return ""
	}
	return "usr/lib"
}

// Runtime is kmod, as elsewhere.
func (d rpm) Runtime(arch string) []string {
	if _, ok := LookupArch(arch); !ok {
		return nil
	}
	return []string{"kmod"}
}

// Toolchain has what a slim base lacks of the tools that the kernel's and NVIDIA's scripts call. The headers of the C library
// and the assembler come with the compiler. elf is for all architectures alike: the headers packages of el8 and later depend on it.
func (d rpm) Toolchain(arch string) []string {
	if _, ok := LookupArch(arch); !ok {
		return nil
	}
	packages := append(slices.Clone(d.compilers), d.Runtime(arch)...)
	return append(packages, d.elf, "make", "diffutils", "findutils", "gawk")
}

// Links are few: these compilers bring their short names themselves, with exceptions.
func (d rpm) Links() map[string]string {
	links := map[string]string{}
	maps.Copy(links, d.links)
	return links
}

// KernelOf is never ok: all kernels of a flavour have the same package name.
func (d rpm) KernelOf(string) (release, flavour string, ok bool) { return "", "", false }

// isRelease says whether a text can be a kernel's release that stands in a dependency: no blanks, no signs that compare.
func isRelease(text string) bool {
	if text == "" || len(text) > maxRelease || !isDigit(text[0]) {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return r >= 0x80 || !isDigit(byte(r)) && !isLetter(byte(r)) && !strings.ContainsRune(".-_+~^", r)
	}) < 0
}

package distros

import (
	"slices"
	"strings"
)

// azureLinux is Azure Linux 3. Its kernels are named <version>-<build>, without the architecture,
// and the release is the version of the package: kernel-devel 6.6.64.2-7.azl3 has the headers of
// 6.6.64.2-7.azl3. Kernels of a later series are in kernel-hwe. kernel-64k is not known here: its
// releases are those of the plain kernel, so nothing in a release tells the two apart.
type azureLinux struct{ rpm }

// azure returns the release. gcc 13.2 built its kernels. Its package does not require the assembler
// and the headers of the C library, as its metapackage build-essential shows.
func azure() []Distro {
	return []Distro{azureLinux{rpm{
		family: "azurelinux", version: "3.0", elf: elfDevel, compilers: []string{"gcc", "binutils", "glibc-devel", "kernel-headers"},
	}}}
}

// azureHeaders are the packages with headers.
var azureHeaders = []string{"kernel-devel", "kernel-hwe-devel"}

// LibDir is lib, to which lib64 is a link.
func (d azureLinux) LibDir(arch string) string { return forArch(arch, "usr/lib") }

// LibDir32 returns "": there are no 32-bit libraries.
func (d azureLinux) LibDir32(string) string { return "" }

// Headers returns either package. It depends on the kernel itself.
func (d azureLinux) Headers(release string) []string {
	either := "(" + azureHeaders[0] + " = " + release + " or " + azureHeaders[1] + " = " + release + ")"
	return given(isRelease(release) && strings.Contains(release, "-"), either)
}

// KernelProvides returns the names of the packages.
func (d azureLinux) KernelProvides() []string { return slices.Clone(azureHeaders) }

// KernelOfProvide uses the version unchanged.
func (d azureLinux) KernelOfProvide(name, version, _ string) (release, flavour string, ok bool) {
	if !slices.Contains(azureHeaders, name) || d.Headers(version) == nil ||
		ParseRelease(version).Version == "" {
		return "", "", false
	}
	return version, "", true
}

// KernelFlavour is "": neither kernel has a flavour in its name.
func (d azureLinux) KernelFlavour(string) string { return "" }

// KernelImages returns both packages.
func (d azureLinux) KernelImages(release string) []string {
	return given(d.Headers(release) != nil, "kernel = "+release, "kernel-hwe = "+release)
}

// KernelParts returns the package with the drivers of graphics, which others need: drm.
func (d azureLinux) KernelParts(release string) []string {
	return given(d.Headers(release) != nil, "kernel-drivers-gpu = "+release)
}

// KernelMeta is the package of the series that machines boot by default.
func (d azureLinux) KernelMeta(string) string { return azureHeaders[0] }

// BuildDirs returns one folder.
func (d azureLinux) BuildDirs(release string) []string {
	return given(d.Headers(release) != nil, "usr/src/linux-headers-"+release)
}

// ModulePackages returns the package with drm, which nvidia-drm needs and a machine without a
// display lacks.
func (d azureLinux) ModulePackages(release string) []string {
	return given(d.Headers(release) != nil, "kernel-drivers-gpu-"+release)
}

// ReleaseVers returns the system's own version for its kernels.
func (d azureLinux) ReleaseVers(release string) []string {
	return given(strings.HasSuffix(release, ".azl3"), d.version)
}

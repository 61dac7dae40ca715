package distros

import (
	"slices"
	"strings"
)

// sle is SUSE Linux Enterprise 15 and 16, and openSUSE Leap, which has the same kernels. They are
// named <version>-<build>-<flavour>. The build of their packages has one more field, which counts
// rebuilds of the same source: package 6.4.0-150600.23.25.1 is kernel 6.4.0-150600.23.25-default.
type sle struct{ rpm }

// suse returns the service packs of 15, and the minor versions of 16. Each has one series of
// kernels for its life: 5.3, 5.14 for two of them, 6.4 for two, 6.12. gcc 7 built all kernels of
// 15, gcc 13 those of 16 ("gcc-13 (SUSE Linux) 13.4.0"); their packages have only versioned names.
func suse() []Distro {
	var all []Distro
	add := func(family, gcc string, versions ...string) {
		for _, version := range versions {
			all = append(all, sle{rpm{
				family: family, version: version, compilers: []string{"gcc" + gcc}, elf: "libelf-devel", zlibName: "libz1", noIBStat: family == "sles",
				links: map[string]string{"usr/bin/cc": "gcc", "usr/bin/gcc": "gcc-" + gcc},
			}})
		}
	}
	add("sles", "7", "15.3", "15.4", "15.5", "15.6", "15.7")
	add("sles", "13", "16.0")
	add("opensuse-leap", "7", "15.4", "15.5", "15.6")
	add("opensuse-leap", "13", "16.0")
	return all
}

// sleFlavours are the flavours with headers packages. kernel-64kb and the clouds' are for one
// architecture each.
var sleFlavours = []string{"default", "azure", "rt", "64kb", "preempt"}

// split splits a release into the flavour and the version that packages of the kernel provide.
func (d sle) split(release string) (version, flavour string, ok bool) {
	i := max(strings.LastIndexByte(release, '-'), 0)
	version = release[:i]
	flavour = strings.TrimPrefix(release[i:], "-")
	// Version and build need two fields; a release without flavour has them as well.
	return version, flavour, isRelease(release) && strings.Contains(version, "-") &&
		flavour != "" &&
		(isLetter(flavour[0]) || flavour == "64kb")
}

// Headers returns the package of the flavour. It depends on kernel-devel, which all flavours share,
// and that depends on kernel-macros.
func (d sle) Headers(release string) []string {
	version, flavour, ok := d.split(release)
	return given(ok, d.KernelMeta(flavour)+" = "+version)
}

// KernelProvides returns one name for each flavour.
func (d sle) KernelProvides() []string {
	var names []string
	for _, flavour := range sleFlavours {
		names = append(names, d.KernelMeta(flavour))
	}
	return names
}

// KernelOfProvide refuses the provide of the package itself: its version is not the kernel's.
func (d sle) KernelOfProvide(name, version, own string) (release, flavour string, ok bool) {
	if version == own || !slices.Contains(d.KernelProvides(), name) {
		return "", "", false
	}
	flavour = strings.TrimSuffix(strings.TrimPrefix(name, "kernel-"), "-devel")
	release = version + "-" + flavour
	if d.Headers(release) == nil || ParseRelease(release).Version == "" {
		return "", "", false
	}
	return release, flavour, true
}

// KernelFlavour is "default".
func (d sle) KernelFlavour(arch string) string { return forArch(arch, "default") }

// KernelImages returns one package.
func (d sle) KernelImages(release string) []string {
	version, flavour, ok := d.split(release)
	return given(ok, "kernel-"+flavour+" = "+version)
}

// KernelParts returns nil: the package of the kernel has the modules that SUSE supports.
func (d sle) KernelParts(string) []string { return nil }

// KernelMeta returns the headers package of the flavour.
func (d sle) KernelMeta(flavour string) string { return "kernel-" + flavour + "-devel" }

// BuildDirs returns the folder of the generated files. The sources that all flavours share are
// beside it, in linux-<version>.
func (d sle) BuildDirs(release string) []string {
	version, flavour, ok := d.split(release)
	if !ok {
		return nil
	}
	if slices.Contains([]string{"azure", "rt"}, flavour) { // flavours with sources of their own
		version += "-" + flavour
	}
	var dirs []string
	for _, a := range Archs() {
		dirs = append(dirs, "usr/src/linux-"+version+"-obj/"+a.Kernel+"/"+flavour)
	}
	return dirs
}

// ModulePackages returns the whole kernel, which replaces kernel-default-base, and the separate
// package with modules that SUSE does not support.
func (d sle) ModulePackages(release string) []string {
	version, flavour, ok := d.split(release)
	return given(ok, "kernel-"+flavour+"="+version, "kernel-"+flavour+"-optional="+version)
}

// ReleaseVers returns the service pack, which is the system itself: "15.6" for build 150600.23.25,
// "16.0" for 160000.5. Builds before 15.3 do not have it.
func (d sle) ReleaseVers(release string) []string {
	pack, _, _ := strings.Cut(ParseRelease(release).Build, ".")
	minor := strings.TrimLeft(pack[min(2, len(pack)):min(4, len(pack))], "0")
	if minor == "" && strings.HasPrefix(pack, "16") {
		minor = "0"
	}
	known := len(pack) == 6 && strings.HasSuffix(pack, "00") &&
		strings.Trim(pack, "0123456789") == "" &&
		minor != ""
	return given(known, pack[:min(2, len(pack))]+"."+minor)
}

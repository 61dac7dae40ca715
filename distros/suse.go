package distros

import (
	"slices"
	"strings"
)

// sle is SUSE Linux Enterprise 15 and openSUSE Leap, which has the same kernels. They are named <version>-<build>-<flavour>;
// the build of their packages has one more field, which counts rebuilds of the same source, so that package
// 6.4.0-150600.23.25.1 is kernel 6.4.0-150600.23.25-default.
type sle struct{ rpm }

// suse lists the service packs. Each has one series of kernels for its life: 5.3, 5.14 for two, 6.4 for two. All are built
// with gcc 7, whose package brings versioned names only.
func suse() []Distro {
	var all []Distro
	add := func(family string, versions ...string) {
		for _, version := range versions {
			all = append(all, sle{rpm{
				family: family, version: version, compilers: []string{"gcc7"}, elf: "libelf-devel",
				links: map[string]string{"usr/bin/cc": "gcc", "usr/bin/gcc": "gcc-7"},
			}})
		}
	}
	add("sles", "15.3", "15.4", "15.5", "15.6", "15.7")
	add("opensuse-leap", "15.4", "15.5", "15.6")
	return all
}

// sleFlavours are those that there are headers packages of. kernel-64kb and the clouds' are for one architecture each.
var sleFlavours = []string{"default", "azure", "rt", "64kb", "preempt"}

// split finds the flavour and the version that packages of the kernel provide.
func (d sle) split(release string) (version, flavour string, ok bool) {
	if !isRelease(release) {
		return "", "", false
	}
	i := strings.LastIndexByte(release, '-')
	if i < 0 {
		return "", "", false
	}
	version, flavour = release[:i], release[i+1:]
	// Two fields are needed for a version and a build; a release without flavour has them as well.
	if !strings.Contains(version, "-") || flavour == "" || !isLetter(flavour[0]) && flavour != "64kb" {
		return "", "", false
	}
	return version, flavour, true
}

// Headers is the package of the flavour; it depends on kernel-devel, which all flavours share, and that on kernel-macros.
func (d sle) Headers(release string) []string {
	version, flavour, ok := d.split(release)
	if !ok {
		return nil
	}
	return []string{"kernel-" + flavour + "-devel = " + version}
}

// KernelProvides is one name a flavour.
func (d sle) KernelProvides() []string {
	var names []string
	for _, flavour := range sleFlavours {
		names = append(names, d.KernelMeta(flavour))
	}
	return names
}

// KernelOfProvide leaves out what the package provides of itself: its version is not the kernel's.
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
func (d sle) KernelFlavour(arch string) string {
	if _, ok := LookupArch(arch); !ok {
		return ""
	}
	return "default"
}

// KernelImages is one package.
func (d sle) KernelImages(release string) []string {
	version, flavour, ok := d.split(release)
	if !ok {
		return nil
	}
	return []string{"kernel-" + flavour + " = " + version}
}

// KernelMeta is the headers package of the flavour.
func (d sle) KernelMeta(flavour string) string { return "kernel-" + flavour + "-devel" }

// BuildDirs is what was generated; the sources that all flavours share lie beside it, in linux-<version>.
func (d sle) BuildDirs(release string) []string {
	version, flavour, ok := d.split(release)
	if !ok {
		return nil
	}
	if slices.Contains([]string{"azure", "rt"}, flavour) { // with sources of their own
		version += "-" + flavour
	}
	var dirs []string
	for _, a := range Archs() {
		dirs = append(dirs, "usr/src/linux-"+version+"-obj/"+a.Kernel+"/"+flavour)
	}
	return dirs
}

// ModulePackages is the whole kernel in place of kernel-default-base, and what SUSE does not support, which is apart.
func (d sle) ModulePackages(release string) []string {
	version, flavour, ok := d.split(release)
	if !ok {
		return nil
	}
	return []string{"kernel-" + flavour + "=" + version, "kernel-" + flavour + "-optional=" + version}
}

// ReleaseVers is the service pack, which is the system itself: "15.6" of build 150600.23.25. Builds of before 15.3 do not say it.
func (d sle) ReleaseVers(release string) []string {
	pack, _, _ := strings.Cut(ParseRelease(release).Build, ".")
	minor := strings.TrimLeft(pack[min(2, len(pack)):min(4, len(pack))], "0")
	if len(pack) != 6 || !strings.HasSuffix(pack, "00") || strings.Trim(pack, "0123456789") != "" || minor == "" {
		return nil
	}
	return []string{pack[:2] + "." + minor}
}

// ExtraRepositories are none: those of a service pack keep all of its kernels.
func (d sle) ExtraRepositories(string, string) []string { return nil }

package distros

import (
	"slices"
	"strings"
)

// el is Red Hat's Linux and every system built like it: its kernels are named
// <version>-<build>.<arch>, and the provides of their headers packages have that name. It equals
// uname -r since el6, for all flavours.
type el struct {
	rpm
	provides       []string // beside kernel-devel-uname-r
	defaultFlavour string   // flavour
	versions       []string // values of $releasever that hold for all kernels
	singlePackage  bool     // one package has the kernel with all of its modules
	// kernel series with repositories of their own, switched off: amzn2extra-kernel-5.10
	extraSeries []string
	// The series of the packages without a series in their name, where packages of later series
	// have one: kernel6.12.
	series string
}

// redhat returns these systems. The system's own compiler built their kernels, except Oracle's
// (UEK): UEK 7 on el8 needs -ftrivial-auto-var-init, which gcc 8 lacks, and the headers package of
// UEK 8 depends on gcc-toolset-13 on el9. RHEL and its rebuilds have VERSION_ID=9.4; the operator's
// tag has the minor version only for AlmaLinux (see osrelease.Tag).
func redhat() []Distro {
	all := []Distro{
		// Kernel 3.10, gcc 4.8, Docker 1.13.
		el{rpm: rpm{family: "centos", version: "7", compilers: []string{"gcc"}, elf: elfDevel, oldRuntime: true}, versions: []string{"7"}, singlePackage: true},
	}
	// 4.18 and gcc 8.5, 5.14 and gcc 11, 6.12 and gcc 14
	for _, version := range []string{"8", "9", "10"} {
		for _, family := range []string{"rhel", "rocky", "almalinux"} {
			all = append(all, el{rpm: rpm{family: family, version: version, coversMinors: true, compilers: []string{"gcc"}, elf: elfDevel, noIBStat: family == "rhel"}})
		}
	}
	// CentOS Stream has the kernels of RHEL's next minor version, whose names have no minor
	// version. OKD's nodes (SCOS) run these kernels.
	for _, version := range []string{"9", "10"} {
		all = append(all, el{rpm: rpm{family: "centos", version: version, compilers: []string{"gcc"}, elf: elfDevel}})
	}
	for _, version := range []string{"8", "9", "10"} {
		d := el{rpm: rpm{family: "ol", version: version, coversMinors: true, compilers: []string{"gcc"}, elf: elfDevel}, provides: []string{"kernel-uek-devel-uname-r"}, defaultFlavour: "uek"}
		if set := map[string]string{"8": "gcc-toolset-11", "9": "gcc-toolset-13"}[version]; set != "" {
			d.compilers = append(d.compilers, set+"-gcc")
			d.dirs = []string{"opt/rh/" + set + "/root/usr/bin"}
		}
		all = append(all, d)
	}
	return all
}

const (
	elfDevel  = "elfutils-libelf-devel"
	develName = "kernel-devel-uname-r"
	// of the real-time kernels up to el8, which were separate packages
	rtName  = "kernel-rt-devel-uname-r"
	uekName = "kernel-uek-devel-uname-r"
)

// provide returns the name of the provide by which the headers of a kernel are found.
func (d el) provide(r Release) string {
	if strings.HasSuffix(r.Dist, "uek") && slices.Contains(d.provides, uekName) {
		return uekName
	}
	return develName
}

// Headers returns one dependency. Real-time kernels of el7 and el8 have one of two names.
func (d el) Headers(release string) []string {
	r := ParseRelease(release)
	want := d.provide(r) + " = " + release
	if strings.HasPrefix(r.Flavour, "rt") && releaseRT().MatchString(r.Build) {
		want = "(" + develName + " = " + release + " or " + rtName + " = " + release + ")"
	}
	return given(isRelease(release), want)
}

// KernelProvides returns kernel-devel-uname-r, and the names that separate kernels have instead.
func (d el) KernelProvides() []string {
	return append([]string{develName, rtName}, d.provides...)
}

// KernelOfProvide uses the version unchanged.
func (d el) KernelOfProvide(name, version, _ string) (release, flavour string, ok bool) {
	r := ParseRelease(version)
	if !slices.Contains(d.KernelProvides(), name) || !isRelease(version) || r.Version == "" {
		return "", "", false
	}
	return version, r.Flavour, true
}

// KernelFlavour is "" except for Oracle, whose machines boot Oracle's own kernel.
func (d el) KernelFlavour(arch string) string { return forArch(arch, d.defaultFlavour) }

// KernelImages returns a provide of kernel-core, or of kernel where that is one package.
func (d el) KernelImages(release string) []string {
	names := []string{"kernel-uname-r = " + release}
	// kernels in separate packages: kernel-rt of el8, kernel-uek
	if r := ParseRelease(release); r.Flavour != "" {
		names = append(names, "kernel-"+r.Flavour+"-uname-r = "+release)
	}
	return given(isRelease(release), names...)
}

// KernelParts returns provides of the packages of modules: kernel-modules-core since RHEL 9.2, with the
// flavour behind the first word (kernel.spec of CentOS Stream and of Oracle's UEK). Modules for
// machines that are no servers are left out.
func (d el) KernelParts(release string) []string {
	name := "kernel"
	if r := ParseRelease(release); r.Flavour != "" {
		name += "-" + r.Flavour
	}
	return given(
		isRelease(release) && !d.singlePackage,
		name+"-modules-core-uname-r = "+release,
		name+"-modules-uname-r = "+release,
	)
}

// KernelMeta returns the headers package of the flavour: the system installs the series of its
// newest version.
func (d el) KernelMeta(flavour string) string {
	if flavour == "" {
		return "kernel-devel"
	}
	return "kernel-" + flavour + "-devel"
}

// BuildDirs returns one folder.
func (d el) BuildDirs(release string) []string {
	return given(isRelease(release), "usr/src/kernels/"+release)
}

// ModulePackages returns the packages with modules that kernel-core lacks. Their names have neither
// the flavour's "+" nor the text after it: kernel-rt-modules-5.14.0-427.13.1.el9_4.x86_64.
func (d el) ModulePackages(release string) []string {
	r := ParseRelease(release)
	if d.singlePackage || !isRelease(release) || r.Arch == "" {
		return nil
	}
	name := "kernel"
	rest := r.Version + "-" + r.Build + "." + r.Arch
	if d.series != "" {
		if r.Series() != d.series {
			name += r.Series()
		}
		return []string{name + "-modules-extra-" + rest}
	}
	if r.Flavour != "" {
		name += "-" + r.Flavour
	}
	return []string{name + "-modules-" + rest, name + "-modules-extra-" + rest}
}

// ReleaseVers returns the minor version that the kernel was built for and the major one, for
// systems that keep both.
func (d el) ReleaseVers(release string) []string {
	if d.versions != nil {
		return slices.Clone(d.versions)
	}
	minor, major, ok := elMinor(ParseRelease(release).Dist)
	switch {
	case !ok || major != d.version:
		return nil
	case minor == "" || !d.coversMinors:
		return []string{major}
	}
	return []string{minor, major}
}

// ExtraRepositories returns RHEL's repositories for minor versions that the main ones no longer
// have (extended update support); CentOS 7's repositories for each minor version, which its base
// configures (CentOS-Vault.repo); and Amazon Linux 2's for kernels newer than its own, which are
// switched on one by one (amzn2-extras.repo).
func (d el) ExtraRepositories(release, arch string) []string {
	r := ParseRelease(release)
	if r.Dist == d.ID() && slices.Contains(d.extraSeries, r.Series()) {
		return []string{d.ID() + "extra-kernel-" + r.Series()}
	}
	minor, major, ok := elMinor(r.Dist)
	a, known := LookupArch(arch)
	if !ok || major != d.version || !known {
		return nil
	}
	var ids []string
	switch {
	case d.family == "rhel" && minor != "":
		for _, part := range []string{"baseos", "appstream"} {
			ids = append(ids, "rhel-"+major+"-for-"+a.Kernel+"-"+part+"-eus-rpms")
		}
	case d.ID() == "centos7":
		build, _, _ := strings.Cut(r.Build, ".")
		if dated := centos7Versions[build]; dated != "" {
			ids = append(ids, "C"+dated+"-base", "C"+dated+"-updates")
		}
	}
	return ids
}

// centos7Versions has CentOS's names of its minor versions by the first number of their kernels'
// builds.
var centos7Versions = map[string]string{
	"123": "7.0.1406", "229": "7.1.1503", "327": "7.2.1511", "514": "7.3.1611", "693": "7.4.1708",
	"862": "7.5.1804", "957": "7.6.1810", "1062": "7.7.1908", "1127": "7.8.2003", "1160": "7.9.2009",
}

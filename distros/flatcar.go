package distros

import "strings"

// hosted is a system without packages, whose images stand on another system's.
type hosted struct {
	Distro // the user land
	family string
}

// flatcar has one version a fortnight, and kernels that nobody publishes headers of: those are on the host itself, below
// /lib/modules/<release>/build. Their programs (fixdep, modpost, objtool) want the C library that built them, 2.38 and
// later, and the kernels gcc 13 and 14: Debian 13 has 2.41 and gcc 14, the long-term releases before it have too old ones.
func flatcar() []Distro {
	for _, d := range debian() {
		if d.ID() == "debian13" {
			return []Distro{hosted{Distro: d, family: "flatcar"}}
		}
	}
	return nil
}

// ID has no version: an image does for all of them. The operator's tags have one (see OSTag).
func (d hosted) ID() string                        { return d.family }
func (d hosted) OSRelease() (id, versionID string) { return d.family, "" }
func (d hosted) PackageManager() string            { return "" }

// Matches takes every version.
func (d hosted) Matches(id, _ string) bool { return id == d.family }

// Headers are in no package.
func (d hosted) Headers(string) []string { return nil }

// KernelOf is never ok.
func (d hosted) KernelOf(string) (release, flavour string, ok bool) { return "", "", false }

// KernelFlavour is what the releases end with.
func (d hosted) KernelFlavour(arch string) string {
	if _, ok := LookupArch(arch); !ok {
		return ""
	}
	return d.family
}

// KernelImages are none.
func (d hosted) KernelImages(string) []string { return nil }

// KernelMeta is none.
func (d hosted) KernelMeta(string) string { return "" }

// BuildDirs is where the host has it.
func (d hosted) BuildDirs(release string) []string {
	if !isRelease(release) || strings.Contains(release, "..") {
		return nil
	}
	return []string{"usr/lib/modules/" + release + "/build"}
}

// ModulePackages are none: the system comes in one piece.
func (d hosted) ModulePackages(string) []string { return nil }

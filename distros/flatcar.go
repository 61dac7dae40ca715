package distros

import "strings"

// packageless is a system without packages, whose images use another system's user land.
type packageless struct {
	Distro // the user land
	family string
}

// flatcar returns Flatcar, which has a new version every two weeks and publishes no headers of its
// kernels: they are on the host itself, below /lib/modules/<release>/build. Their programs (fixdep,
// modpost, objtool) need the C library that built them, 2.38 or later, and the kernels need gcc 13
// and 14: Debian 13 has 2.41 and gcc 14; in the long-term releases before it both are too old.
func flatcar() []Distro {
	for _, d := range debian() {
		if d.ID() == "debian13" {
			return []Distro{packageless{Distro: d, family: "flatcar"}}
		}
	}
	return nil
}

// ID has no version, because one image serves all versions. The operator's tags have one (see
// osrelease.Tag).
func (d packageless) ID() string                        { return d.family }
func (d packageless) OSRelease() (id, versionID string) { return d.family, "" }
func (d packageless) PackageManager() string            { return "" }

// Matches accepts every version.
func (d packageless) Matches(id, _ string) bool { return id == d.family }

// Headers returns nil: no package has them.
func (d packageless) Headers(string) []string { return nil }

// KernelOf never returns ok.
func (d packageless) KernelOf(string) (release, flavour string, ok bool) { return "", "", false }

// KernelFlavour is the suffix of the releases.
func (d packageless) KernelFlavour(arch string) string { return forArch(arch, d.family) }

// KernelImages returns nil.
func (d packageless) KernelImages(string) []string { return nil }

// KernelParts returns nil.
func (d packageless) KernelParts(string) []string { return nil }

// KernelMeta returns "".
func (d packageless) KernelMeta(string) string { return "" }

// BuildDirs returns the folder on the host.
func (d packageless) BuildDirs(release string) []string {
	return given(
		isRelease(release) && !strings.Contains(release, ".."),
		"usr/lib/modules/"+release+"/build",
	)
}

// ModulePackages returns nil: the system is one piece.
func (d packageless) ModulePackages(string) []string { return nil }

// Userland returns the system whose base, packages and folders the images of d have. It is d itself
// unless d has no packages (Flatcar): such images are based on another system and share only the
// kernel with d.
func Userland(d Distro) Distro {
	if h, ok := d.(packageless); ok {
		return h.Distro
	}
	return d
}

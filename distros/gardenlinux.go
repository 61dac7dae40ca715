package distros

import "strings"

// garden is a major release of Garden Linux, which is made of Debian's packages and a kernel of its
// own. Each of its releases ("1877.14", "2150.3.0") has a repository of its own, a suite of this
// name with one version of the kernel.
type garden struct{ deb }

// gardenlinux returns the major releases that get updates. They are snapshots of Debian testing,
// with the compiler that was usual there; the kernel is the newest long-term one of kernel.org.
func gardenlinux() []Distro {
	return []Distro{
		// 6.12
		garden{
			deb{
				family:    "gardenlinux",
				version:   "1877",
				compilers: []string{"gcc-14"},
				elf:       "libelf1t64",
			},
		},
		// 6.18
		garden{
			deb{
				family:    "gardenlinux",
				version:   "2150",
				compilers: []string{"gcc-15"},
				elf:       "libelf1t64",
			},
		},
	}
}

// Matches compares the major release. os-release has no VERSION_ID there: the version is
// GARDENLINUX_VERSION.
func (g garden) Matches(id, versionID string) bool {
	major, _, _ := strings.Cut(versionID, ".")
	return id == g.family && major == g.version
}

// KernelFlavour is the one of the images for clouds. Machines without a hypervisor run "amd64" or
// "arm64".
func (g garden) KernelFlavour(arch string) string { return forArch(arch, "cloud-"+arch) }

// Distroless returns nothing: what makes a release's os-release is in no package.
func (g garden) Distroless(string) Distroless { return Distroless{} }

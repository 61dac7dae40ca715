// Package distros has the differences between operating systems, as data: names, library folders,
// the packages that compile a kernel module. A family of systems is a file (debian.go, ubuntu.go),
// a system is an entry in it, and no code outside of this package switches on the name of a system.
//
// It reads no repository, downloads nothing and does not know which kernel releases exist. The
// packages below it read repositories and download.
package distros

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
)

// Distro is one release of an operating system. All of it is data: methods do no input or output
// and always return the same. Architectures have the names of Go and OCI (see Arch).
type Distro interface {
	// ID returns the name in tags and in matrix.yaml: "ubuntu16.04".
	ID() string
	// OSRelease returns ID and VERSION_ID of the system's os-release file, without the minor
	// version where one system covers all minor versions: "ubuntu", "16.04"; "rocky", "9".
	OSRelease() (id, versionID string)
	// Matches reports whether a root with this ID and VERSION_ID in its os-release is this system:
	// "rocky", "9.4" is rocky9.
	Matches(id, versionID string) bool
	// LibDir returns the folder where the system's loader finds shared libraries, relative to the
	// root: "usr/lib/x86_64-linux-gnu". It is "" for an architecture that the system does not have.
	LibDir(arch string) string
	// LibDir32 returns the same folder for 32-bit programs; "" where there are none.
	LibDir32(arch string) string
	// Runtime returns the packages that loading a kernel module needs on top of a slim base image.
	Runtime(arch string) []string
	// Distroless returns what an image has of the system if it is not built on a base; no packages:
	// such images cannot be made.
	Distroless(arch string) Distroless
	// Fabric returns the packages that NVIDIA's programs for NVSwitch and NVLink need: ibstat, by
	// which their start script finds the port of the switches, and zlib.
	Fabric(arch string) []string
	// Toolchain returns the packages that compile and load a kernel module, including those of
	// Runtime. The first compiler is the one to use unless the kernel's headers name another.
	Toolchain(arch string) []string
	// Links returns symbolic links that the packages' own scripts would make (alternatives), or
	// that are in a package which is otherwise not needed: path relative to the root -> target as
	// in readlink.
	Links() map[string]string
	// Headers returns the packages that have the headers of a kernel with this release (uname -r):
	// "6.1.0-38-amd64". For rpm packages it returns dependencies instead, because all kernels have
	// one package name: "kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64".
	//
	// The repository's index adds their dependencies: Debian's -common and kbuild packages, the
	// headers that all flavours of an Ubuntu release share, under any name
	// (linux-hwe-6.8-headers-...), SUSE's kernel-devel. Headers also accepts releases of self-built
	// kernels. It returns nil for text that is not a kernel release, and where headers come with
	// the system and not in packages.
	Headers(release string) []string
	// KernelOf parses the name of a headers package, "linux-headers-6.1.0-38-cloud-amd64", into the
	// kernel's release and flavour, which may be "". ok is false for other packages, for packages
	// that several kernels share, and for metapackages; and always where package names do not
	// distinguish kernels (see RPM).
	KernelOf(headersPackage string) (release, flavour string, ok bool)
	// KernelFlavour returns the flavour that machines run unless their operator chose another:
	// "amd64", "generic", "default". It is "" where the usual kernel has no flavour in its name
	// (Red Hat), and for an architecture that the system does not have.
	KernelFlavour(arch string) string
	// KernelImages returns the possible names of the package with the kernel itself; dependencies,
	// as in Headers, for rpm packages.
	KernelImages(release string) []string
	// KernelParts returns what else a kernel may consist of, its modules for the most part, as
	// KernelImages names packages. A system need not have all of them.
	KernelParts(release string) []string
	// KernelMeta returns the package that depends on the headers of the kernel that the system
	// installs for a flavour. For rpm packages it returns the package of those headers, whose
	// newest version belongs to that kernel.
	KernelMeta(flavour string) string
	// BuildDirs returns the folders, relative to the root, that the header packages of a kernel put
	// its tree into, the likeliest first: "usr/src/kernels/5.14.0-427.13.1.el9_4.x86_64". It
	// returns nil for text that is not a kernel release.
	BuildDirs(release string) []string
	// ModulePackages returns the packages that add the rest of the kernel's own modules on machines
	// that have only a minimal set (no i2c, no ipmi, no drm), as the system's package manager names
	// them. They are for hints to users; nil where the kernel is one package.
	ModulePackages(release string) []string
	// PackageManager returns the kind of the system's packages and repositories: "apt", "rpm", or
	// "" for a system without packages (see Userland).
	PackageManager() string
	// ReadsZstd reports whether the system's own container runtimes read image layers that zstd
	// compressed: containerd from 1.5 on, CRI-O from 1.17, Docker from 23.0. Where Kubernetes no
	// longer runs on Docker, the others count.
	ReadsZstd() bool
}

// RPM has the additional methods of a Distro whose PackageManager is "rpm".
type RPM interface {
	Distro
	// KernelProvides returns the names of the provides by which the headers packages of all kernels
	// can be found.
	KernelProvides() []string
	// KernelOfProvide parses name and version of such a provide into the release of the kernel
	// whose headers the package has, and the flavour, which may be "". own is the version of the
	// package itself, without epoch. A package can have several provides for the same kernel, and
	// one for which ok is false: the provide of the package itself, which SUSE numbers differently.
	KernelOfProvide(name, version, own string) (release, flavour string, ok bool)
	// ReleaseVers returns the values of $releasever with which repositories have the packages of a
	// kernel, the exact one first: "9.4" and "9" for a kernel of el9_4. It returns nil when the
	// release does not tell.
	ReleaseVers(release string) []string
	// ExtraRepositories returns the ids of further repositories with such packages that are usually
	// switched off; arch is a Go name.
	ExtraRepositories(release, arch string) []string
	// CompilerDirs returns folders with compilers of Toolchain that are not on the usual search
	// path: "opt/rh/gcc-toolset-11/root/usr/bin".
	CompilerDirs() []string
}

// All returns the known systems by family, oldest first.
func All() []Distro {
	var all []Distro
	for _, family := range [][]Distro{debian(), ubuntu(), redhat(), amazon(), fedora(), azure(), suse(), flatcar(), gardenlinux()} {
		all = append(all, family...)
	}
	return all
}

// unknown says that there is no system with this name.
func unknown(id string) error {
	if near := Nearest(id, ids()); len(near) > 0 {
		return failure.Errorf(
			failure.Usage,
			"unknown operating system %q: did you mean %s?",
			id,
			strings.Join(near, ", "),
		)
	}
	return failure.Errorf(
		failure.Usage,
		"unknown operating system %q: known are %s",
		id,
		strings.Join(ids(), ", "),
	)
}

// Lookup returns the system with this ID.
func Lookup(id string) (Distro, error) {
	all := All()
	if i := slices.IndexFunc(all, func(d Distro) bool { return d.ID() == id }); i >= 0 {
		return all[i], nil
	}
	return nil, unknown(id)
}

// FromIDs returns the system with this ID and VERSION_ID in its os-release.
func FromIDs(id, versionID string) (Distro, error) {
	for _, d := range All() {
		if d.Matches(id, versionID) {
			return d, nil
		}
	}
	return nil, unknown(id + versionID)
}

func ids() []string {
	var out []string
	for _, d := range All() {
		out = append(out, d.ID())
	}
	return out
}

// Package distros says what differs between operating systems, as data: names, library folders, the packages that
// compile a kernel module. A family of systems is a file (debian.go, ubuntu.go), a system is an entry in it, and nothing
// outside of this package switches on the name of a system.
//
// It reads no repository, downloads nothing and does not know which kernel releases exist; the folders below do the former.
package distros

import (
	"fmt"
	"slices"
	"strings"
)

// Distro is one release of an operating system. All of it is data: methods do no input or output and always answer the
// same. Architectures are the names of Go and OCI (see Arch).
type Distro interface {
	// ID is the name in tags and in matrix.yaml: "ubuntu16.04".
	ID() string
	// OSRelease is ID and VERSION_ID of the system's os-release file, without the minor version where one system stands for
	// all of them: "ubuntu", "16.04"; "rocky", "9".
	OSRelease() (id, versionID string)
	// Matches says whether a root with that ID and VERSION_ID in its os-release is this system: "rocky", "9.4" is rocky9.
	Matches(id, versionID string) bool
	// LibDir is where the system's loader finds shared libraries, relative to the root: "usr/lib/x86_64-linux-gnu". It is
	// "" for an architecture that the system does not have.
	LibDir(arch string) string
	// LibDir32 is the same for 32-bit programs; "" where there are none.
	LibDir32(arch string) string
	// Runtime lists the packages that loading a kernel module takes, given a slim base image.
	Runtime(arch string) []string
	// Toolchain lists the packages that compile and load a kernel module, those of Runtime included. The first compiler is
	// the one to use where the kernel's headers do not name another.
	Toolchain(arch string) []string
	// Links are the symbolic links that the packages' own scripts would have made (alternatives) or that a package would
	// have brought which is otherwise not needed: path relative to the root -> target as in readlink.
	Links() map[string]string
	// Headers lists the packages that hold the headers of a kernel, by its release as uname -r says it: "6.1.0-38-amd64".
	// Where packages are rpm's it is dependencies instead, because all kernels have one package name:
	// "kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64".
	// What they depend on comes on top, from the repository's index: Debian's -common and kbuild packages, Ubuntu's
	// headers that all flavours of a release share, under whatever name (linux-hwe-6.8-headers-...), SUSE's kernel-devel. Releases
	// of kernels that people built themselves are taken as they are. It is nil for text that is no kernel's release, and where
	// headers come with the system and not in packages.
	Headers(release string) []string
	// KernelOf reads the name of a headers package, "linux-headers-6.1.0-38-cloud-amd64": the kernel's release and its flavour,
	// which may be "". It is not ok for other packages, for those that several kernels share, and for metapackages; and never
	// where names do not tell kernels apart (see RPM).
	KernelOf(headersPackage string) (release, flavour string, ok bool)
	// KernelFlavour is the flavour that machines run unless somebody chose another one: "amd64", "generic", "default". It is ""
	// where the usual kernel has no flavour in its name (Red Hat), and for an architecture that the system does not have.
	KernelFlavour(arch string) string
	// KernelImages are the names that the package of the kernel itself may have; dependencies, as in Headers, where packages are rpm's.
	KernelImages(release string) []string
	// KernelMeta is the package that depends on the headers of the kernel that the system installs for a flavour or, where
	// packages are rpm's, the package of those headers, whose newest version is of that kernel.
	KernelMeta(flavour string) string
	// BuildDirs are the folders that the header packages of a kernel put its tree into, the likeliest first and relative to
	// the root: "usr/src/kernels/5.14.0-427.13.1.el9_4.x86_64". It is nil for text that is no kernel's release.
	BuildDirs(release string) []string
	// ModulePackages are the packages that complete the kernel's own modules where a machine has only the least of them
	// (no i2c, no ipmi, no drm), in the words of the system's package manager. They are for hints to people; nil where the
	// kernel comes in one piece.
	ModulePackages(release string) []string
	// PackageManager is the kind of the system's packages and repositories: "apt", "rpm", or "" for a system that has none
	// (see Userland).
	PackageManager() string
}

// RPM is what a Distro is beside its other methods where PackageManager is "rpm".
type RPM interface {
	Distro
	// KernelProvides are the names under which the headers packages of all kernels can be found among what packages provide.
	KernelProvides() []string
	// KernelOfProvide reads such a provide, its name and its version: the release of the kernel that the package has the headers
	// of, and its flavour, which may be "". own is the version of the package itself, without epoch. A package can have several
	// provides that say the same kernel, and one that is not ok: what it provides of itself, which SUSE numbers differently.
	KernelOfProvide(name, version, own string) (release, flavour string, ok bool)
	// ReleaseVers are the values of $releasever under which repositories have the packages of a kernel, the exact one
	// first: "9.4" and "9" for a kernel of el9_4. It is nil when the release does not say.
	ReleaseVers(release string) []string
	// ExtraRepositories are the ids of repositories that have such packages too and that are usually switched off; arch
	// is a Go name.
	ExtraRepositories(release, arch string) []string
	// CompilerDirs are folders with compilers of Toolchain that are not on the usual search path: "opt/rh/gcc-toolset-11/root/usr/bin".
	CompilerDirs() []string
}

// All lists the known systems by family, oldest first.
func All() []Distro {
	var all []Distro
	for _, family := range [][]Distro{debian(), ubuntu(), redhat(), amazon(), fedora(), suse(), flatcar()} {
		all = append(all, family...)
	}
	return all
}

// UnknownError says that there is no system of that name.
type UnknownError struct {
	ID      string
	Nearest []string // what may have been meant, best first; may be empty
}

func (e *UnknownError) Error() string {
	if len(e.Nearest) > 0 {
		return fmt.Sprintf("unknown operating system %q: did you mean %s?", e.ID, strings.Join(e.Nearest, ", "))
	}
	return fmt.Sprintf("unknown operating system %q: known are %s", e.ID, strings.Join(ids(), ", "))
}

// Lookup finds a system by its ID; the error is an *UnknownError.
func Lookup(id string) (Distro, error) {
	all := All()
	if i := slices.IndexFunc(all, func(d Distro) bool { return d.ID() == id }); i >= 0 {
		return all[i], nil
	}
	return nil, &UnknownError{ID: id, Nearest: Nearest(id, ids())}
}

func ids() []string {
	var out []string
	for _, d := range All() {
		out = append(out, d.ID())
	}
	return out
}

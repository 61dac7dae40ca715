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
	// OSRelease is ID and VERSION_ID of the system's os-release file: "ubuntu", "16.04".
	OSRelease() (id, versionID string)
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
	// What they depend on comes on top, from the repository's index: Debian's -common and kbuild packages, Ubuntu's
	// headers that all flavours of a release share, under whatever name (linux-hwe-6.8-headers-...). Releases of kernels that
	// people built themselves are taken as they are. It is nil for text that is no kernel's release.
	Headers(release string) []string
	// KernelOf reads the name of a headers package, "linux-headers-6.1.0-38-cloud-amd64": the kernel's release and its flavour,
	// which may be "". It is not ok for other packages, for those that several kernels share, and for metapackages.
	KernelOf(headersPackage string) (release, flavour string, ok bool)
	// KernelFlavour is the flavour that machines run unless somebody chose another one: "amd64", "generic"; "" for an
	// architecture that the system does not have.
	KernelFlavour(arch string) string
	// KernelImages are the names that the package of the kernel itself may have.
	KernelImages(release string) []string
	// KernelMeta is the package that depends on the headers of the kernel that the system installs for a flavour.
	KernelMeta(flavour string) string
	// PackageManager is the kind of the system's packages and repositories: "apt".
	PackageManager() string
}

// All lists the known systems by family, oldest first.
func All() []Distro {
	var all []Distro
	for _, family := range [][]deb{debian(), ubuntu()} {
		for _, d := range family {
			all = append(all, d)
		}
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

package distros

import (
	"debug/elf"
	"slices"
	"strings"
)

// Arch is a processor architecture with its names in different systems.
type Arch struct {
	Name    string      // of Go and OCI: "amd64"
	Machine elf.Machine // in the header of its programs
	Kernel  string      // of uname -m, of rpm packages and of NVIDIA's archives: "x86_64"
	Debian  string      // of .deb packages: "amd64"
	Triplet string      // of GNU tools and Debian's library folders: "x86_64-linux-gnu"
	Compat  string      // triplet of its 32-bit programs, "" where no driver supports them
}

// Archs returns the architectures that drivers exist for.
func Archs() []Arch {
	return []Arch{
		{"amd64", elf.EM_X86_64, "x86_64", "amd64", "x86_64-linux-gnu", "i386-linux-gnu"},
		{"arm64", elf.EM_AARCH64, "aarch64", "arm64", "aarch64-linux-gnu", ""},
	}
}

// LookupArch returns the architecture with this Go name.
func LookupArch(name string) (Arch, bool) {
	all := Archs()
	if i := slices.IndexFunc(all, func(a Arch) bool { return a.Name == name }); i >= 0 {
		return all[i], true
	}
	return Arch{}, false
}

// ArchOfRelease returns the architecture that the release of a kernel ends with, by its Go name:
// "amd64" for "6.1.0-38-amd64" and for "5.14.0-503.el9.x86_64". Ubuntu's and SUSE's releases name
// none.
func ArchOfRelease(release string) (name string, ok bool) {
	last := release[strings.LastIndexAny(release, "-.")+1:]
	all := Archs()
	i := slices.IndexFunc(all, func(a Arch) bool { return last == a.Debian || last == a.Kernel })
	if i < 0 {
		return "", false
	}
	return all[i].Name, true
}

// given returns names where they are valid, else nil.
func given(valid bool, names ...string) []string {
	if valid {
		return names
	}
	return nil
}

// forArch returns a value that is the same for every architecture; the zero value for one that no
// driver exists for.
func forArch[T any](arch string, value T) (out T) {
	if _, ok := LookupArch(arch); ok {
		return value
	}
	return out
}

package rpm

import "slices"

// archs lists the package architectures that run on a machine's architecture, the best first. The
// variants of x86_64 and arm that need newer processors are architectures of their own here: a base
// that uses them shows it by its own packages.
var archs = map[string][]string{
	"x86_64":    {"x86_64", "noarch", "i686", "i586", "i486", "i386"},
	"x86_64_v2": {"x86_64_v2", "x86_64", "noarch", "i686", "i586", "i486", "i386"},
	"aarch64":   {"aarch64", "noarch"},
}

// ranks orders the architectures of packages with one name and version; noarch ranks beside the
// best one.
var ranks = []string{"x86_64_v2", "x86_64", "aarch64", "noarch", "i686", "i586", "i486", "i386"}

// KnownArch reports whether this package knows the architecture.
func KnownArch(arch string) bool { return slices.Contains(ranks, arch) }

// ArchRank returns the rank of an architecture among packages of one name and version; the lower
// rank is the better one.
func ArchRank(arch string) int {
	if i := slices.Index(ranks, arch); i >= 0 {
		return i
	}
	return len(ranks)
}

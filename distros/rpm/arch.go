package rpm

import "slices"

// archs lists, best first, what an architecture runs. The variants of x86_64 and arm that need newer processors are their
// own architectures here: a base that has them says so by its own packages.
var archs = map[string][]string{
	"x86_64":    {"x86_64", "noarch", "i686", "i586", "i486", "i386"},
	"x86_64_v2": {"x86_64_v2", "x86_64", "noarch", "i686", "i586", "i486", "i386"},
	"aarch64":   {"aarch64", "noarch"},
	"ppc64le":   {"ppc64le", "noarch"},
	"s390x":     {"s390x", "noarch"},
	"i686":      {"i686", "i586", "i486", "i386", "noarch"},
}

// CompatibleArchs lists, best first, what an architecture runs; nothing for one that is not known.
func CompatibleArchs(arch string) []string { return archs[arch] }

// ranks orders architectures among packages of one name and version; noarch stands with the best.
var ranks = []string{"x86_64_v2", "x86_64", "aarch64", "ppc64le", "s390x", "noarch", "i686", "i586", "i486", "i386"}

// KnownArch tells whether packages of an architecture are known here.
func KnownArch(arch string) bool { return slices.Contains(ranks, arch) }

// ArchRank orders architectures among packages of one name and version; the lower number is the better one.
func ArchRank(arch string) int {
	if i := slices.Index(ranks, arch); i >= 0 {
		return i
	}
	return len(ranks)
}

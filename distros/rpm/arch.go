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

// ranks orders architectures among packages of one name and version; noarch stands with the best.
var ranks = []string{"x86_64_v2", "x86_64", "aarch64", "ppc64le", "s390x", "noarch", "i686", "i586", "i486", "i386"}

func archRank(arch string) int {
	if i := slices.Index(ranks, arch); i >= 0 {
		return i
	}
	return len(ranks)
}

// baseArch is what $basearch stands for.
func baseArch(arch string) string {
	switch arch {
	case "i686", "i586", "i486":
		return "i386"
	}
	return arch
}

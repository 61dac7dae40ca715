package distros

import (
	"cmp"
	"regexp"
	"strings"
)

// Kernel is a kernel that a system's package repository offers headers for.
type Kernel struct {
	Release string // as uname -r says it: "6.1.0-38-cloud-amd64"
	Flavour string // what the release ends with: "amd64", "cloud-amd64", "generic"; "" for a kernel that has none
	Headers string // package: "linux-headers-6.1.0-38-cloud-amd64"
	Version string // of that package: "6.1.147-1"
	// Default says that the kernel is of the series that the system installs unless told otherwise, as its metapackage for
	// the flavour has it: 6.1 in Debian 12, whose repositories offer 6.12 beside it.
	Default bool
}

// CompareReleases orders kernel releases by age: -1, 0 or 1 as a is older than, the same as, or newer than b. Releases are
// taken apart into numbers and words, whatever stands between them, and compared from the left: numbers by value, words by
// letters. Where one has a word and the other a number, the number is newer ("6.1.0-amd64" < "6.1.0-1-amd64"); where one has
// nothing left it is the older one, but "rc" is older still ("6.12-rc6" < "6.12" < "6.12.1"). Only equal text is 0.
//
// The flavour counts last, so the order is one of age within a flavour: Ubuntu numbers the kernels of each on their own.
func CompareReleases(a, b string) int {
	x, y := a, b
	for x != "" || y != "" {
		var p, q string
		p, x = nextField(x)
		q, y = nextField(y)
		if c := compareFields(p, q); c != 0 {
			return c
		}
	}
	return strings.Compare(a, b)
}

// nextField cuts the first number or word off a release, and what stands before it; it is "" at the end.
func nextField(s string) (field, rest string) {
	for s != "" && !isDigit(s[0]) && !isLetter(s[0]) {
		s = s[1:]
	}
	n := 0
	for n < len(s) && (isDigit(s[n]) && isDigit(s[0]) || isLetter(s[n]) && isLetter(s[0])) {
		n++
	}
	return s[:n], s[n:]
}

func compareFields(a, b string) int {
	if c := cmp.Compare(rankField(a), rankField(b)); c != 0 || a == "" || !isDigit(a[0]) {
		return cmp.Or(c, strings.Compare(a, b))
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// rankField orders fields of different kinds.
func rankField(s string) int {
	switch {
	case s == "rc":
		return 0
	case s == "":
		return 1
	case isLetter(s[0]):
		return 2
	}
	return 3
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// KernelTag is a kernel release as node feature discovery writes it into the label kernel-version.full, which the GPU operator
// puts into the tags of precompiled images: what is none of A-Z a-z 0-9 - _ . becomes _, and - _ . go from both ends (source/kernel/version.go
// there). Different releases can have the same tag: "6.1.85+" and "6.1.85".
func KernelTag(release string) string {
	tag := strings.Map(func(r rune) rune {
		if r < 0x80 && (isDigit(byte(r)) || isLetter(byte(r)) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return '_'
	}, release)
	return strings.Trim(tag, "-_.")
}

// releaseParts are the version of a release, the fields that begin with a number or are "rc6", and the flavour.
var releaseParts = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?[^-]*((?:-(?:rc)?[0-9][^-]*)*)(?:-(.*))?$`)

// splitRelease finds the flavour of a release, and whether there is a number of the package before it. A kernel's release
// begins with three numbers, or is one of a release candidate; anything else is no release but the name of a metapackage
// ("6.12-amd64").
func splitRelease(release string) (flavour string, numbered, ok bool) {
	m := releaseParts.FindStringSubmatch(release)
	if m == nil || m[1] == "" && !strings.HasPrefix(m[2], "-rc") {
		return "", false, false
	}
	return m[3], m[2] != "", true
}

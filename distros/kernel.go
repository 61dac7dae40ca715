package distros

import (
	"cmp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Kernel is a kernel for which a system's package repository has headers.
type Kernel struct {
	Release string // as in uname -r: "6.1.0-38-cloud-amd64"
	// suffix of the release: "amd64", "cloud-amd64", "generic"; "" for a kernel without one
	Flavour string
	Headers string // package: "linux-headers-6.1.0-38-cloud-amd64"
	Version string // of that package: "6.1.147-1"
	// Default says that the kernel belongs to the series that the system installs by default, as
	// its metapackage for the flavour says: 6.1 in Debian 12, whose repositories also have 6.12.
	Default bool
	// Signed are the drivers whose modules for the kernel the distribution has built and signed.
	Signed []SignedDriver `json:",omitempty"`
}

// SignedDriver is a driver and the flavour of its modules.
type SignedDriver struct {
	Driver  string `json:"driver"`
	Flavour string `json:"flavour"`
}

// HasSigned reports whether the distribution signed modules of a driver and of all these flavours
// for the kernel.
func (k Kernel) HasSigned(driver string, flavours []string) bool {
	for _, flavour := range flavours {
		if !slices.Contains(k.Signed, SignedDriver{driver, flavour}) {
			return false
		}
	}
	return true
}

// CompareReleases orders kernel releases by age: -1, 0 or 1 as a is older than, the same as, or
// newer than b. It splits releases into numbers and words, ignores what separates them, and
// compares from the left: numbers by value, words by letters. A number is newer than a word
// ("6.1.0-amd64" < "6.1.0-1-amd64"). A release with no field left is the older one, but "rc" is
// older still ("6.12-rc6" < "6.12" < "6.12.1"). Only equal text returns 0.
//
// The flavour counts last, so the order is one of age within a flavour: Ubuntu numbers the kernels
// of each flavour separately.
func CompareReleases(a, b string) int {
	x := a
	y := b
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

// nextField splits the first number or word off a release, with the separator before it; field is
// "" at the end.
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
	a = strings.TrimLeft(a, "0")
	b = strings.TrimLeft(b, "0")
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

// KernelTag returns a kernel release in the form in which node feature discovery writes it into the
// label kernel-version.full. The GPU operator puts this form into the tags of precompiled images:
// every character except A-Z a-z 0-9 - _ . becomes _, and - _ . are removed at both ends
// (source/kernel/version.go of node feature discovery). Different releases can have the same tag:
// "6.1.85+" and "6.1.85".
func KernelTag(release string) string {
	tag := strings.Map(func(r rune) rune {
		if r < 0x80 && (isDigit(byte(r)) || isLetter(byte(r)) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return '_'
	}, release)
	return strings.Trim(tag, "-_.")
}

// releaseParts matches the version of a release, the fields that begin with a number or are "rc6",
// and the flavour.
var releaseParts = lazyregexp.New(
	`^[0-9]+\.[0-9]+(\.[0-9]+)?[^-]*((?:-(?:rc)?[0-9][^-]*)*)(?:-(.*))?$`,
)

// splitRelease returns the flavour of a release, and whether a package number comes before it. A
// kernel release begins with three numbers, or is that of a release candidate; anything else is the
// name of a metapackage ("6.12-amd64").
func splitRelease(release string) (flavour string, numbered, ok bool) {
	m := releaseParts().FindStringSubmatch(release)
	if m == nil || m[1] == "" && !strings.HasPrefix(m[2], "-rc") {
		return "", false, false
	}
	return m[3], m[2] != "", true
}

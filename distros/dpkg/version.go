// Package dpkg reads and writes the file formats of Debian packages: versions and their order,
// control data, relations between packages, .deb archives, and the database of installed packages.
// It treats input as hostile: everything is bounded, and archive members cannot leave the folder
// that they are unpacked in.
//
// It does not run dpkg or maintainer scripts, does not unpack to disk, and does not know
// repositories.
package dpkg

import (
	"cmp"
	"fmt"
	"strings"
)

// Version is a Debian version, [epoch:]upstream[-revision], in its original spelling.
type Version string

// maxEpochDigits keeps comparisons of hostile versions cheap; dpkg itself allows an epoch up to
// 2^31-1.
const maxEpochDigits = 10

// ParseVersion checks a version by the rules of Debian policy 5.6.12. Compare also accepts
// unchecked ones.
func ParseVersion(s string) (Version, error) {
	v := Version(s)
	epoch, upstream, revision := v.split()
	switch {
	case strings.Trim(epoch, "0123456789") != "" || len(epoch) > maxEpochDigits || strings.HasPrefix(s, ":"):
		return "", fmt.Errorf("version %.80q: the epoch before the colon is not a number", s)
	case upstream == "" || upstream[0] < '0' || upstream[0] > '9':
		return "", fmt.Errorf("version %.80q: does not start with a digit", s)
	case strings.HasSuffix(s, "-"):
		return "", fmt.Errorf("version %.80q: nothing after the last hyphen", s)
	}
	for i := range len(upstream) {
		if c := upstream[i]; !isAlnum(c) && !strings.ContainsRune(".+-~:", rune(c)) {
			return "", fmt.Errorf("version %.80q: character %q is not allowed", s, c)
		}
	}
	for i := range len(revision) {
		if c := revision[i]; !isAlnum(c) && !strings.ContainsRune(".+~", rune(c)) {
			return "", fmt.Errorf(
				"version %.80q: character %q is not allowed after the last hyphen",
				s,
				c,
			)
		}
	}
	return v, nil
}

// split splits at the first colon and the last hyphen; missing parts are "".
func (v Version) split() (epoch, upstream, revision string) {
	upstream = string(v)
	if i := strings.IndexByte(upstream, ':'); i >= 0 {
		epoch = upstream[:i]
		upstream = upstream[i+1:]
	}
	if i := strings.LastIndexByte(upstream, '-'); i >= 0 {
		upstream, revision = upstream[:i], upstream[i+1:]
	}
	return epoch, upstream, revision
}

// Compare returns -1, 0 or 1 as a is older than, as old as, or newer than b, by Debian policy
// 5.6.12: it compares the epochs as numbers, then the upstream parts, then the revisions. A missing
// epoch or revision counts as 0.
func Compare(a, b Version) int {
	if a == b {
		return 0
	}
	ea, ua, ra := a.split()
	eb, ub, rb := b.split()
	return cmp.Or(compareNumbers(ea, eb), comparePart(ua, ub), comparePart(ra, rb))
}

// comparePart compares alternately a stretch without digits, by character weight, and a number.
func comparePart(a, b string) int {
	for a != "" || b != "" {
		for a != "" && !isDigit(a[0]) || b != "" && !isDigit(b[0]) {
			if c := cmp.Compare(weight(a), weight(b)); c != 0 {
				return c
			}
			a = a[1:]
			b = b[1:] // equal weights outside of numbers: neither is empty
		}
		restA := strings.TrimLeft(a, "0123456789")
		restB := strings.TrimLeft(b, "0123456789")
		if c := compareNumbers(strings.TrimSuffix(a, restA), strings.TrimSuffix(b, restB)); c != 0 {
			return c
		}
		a = restA
		b = restB
	}
	return 0
}

// weight orders the first character of a stretch without digits: tilde, then its end, then letters,
// then the rest.
func weight(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z':
		return int(s[0])
	}
	return int(s[0]) + 256
}

func compareNumbers(a, b string) int {
	a = strings.TrimLeft(a, "0")
	b = strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlnum(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// Upstream returns the version without epoch and Debian revision: "535.261.03" of
// "1:535.261.03-1~deb12u1".
func (v Version) Upstream() string {
	_, upstream, _ := v.split()
	return upstream
}

package rpmfile

import (
	"cmp"
	"strings"
)

// EVR is a version of a package: [epoch:]version[-release].
type EVR struct {
	Epoch   string // decimal; "" if there is none, which counts as 0
	Version string
	Release string // "" if there is none, as in most dependencies
}

// maxEVR is the maximum length of a version in bytes, longer than any real one.
const maxEVR = 1024

// ParseEVR reads a version and checks it: the epoch is a number of 32 bits, the version is not
// empty, and no part contains a blank or a control character. Errors are ErrFormat.
func ParseEVR(s string) (EVR, error) {
	v := splitEVR(s)
	switch {
	case len(s) > maxEVR:
		return EVR{}, malformed("version %.80q: longer than %d bytes", s, maxEVR)
	case len(strings.TrimLeft(v.Epoch, "0")) > 10:
		return EVR{}, malformed("version %.80q: the epoch is too large", s)
	case v.Version == "":
		return EVR{}, malformed("version %.80q: there is no version in it", s)
	case v.Release == "" && strings.HasSuffix(s, "-"):
		return EVR{}, malformed("version %.80q: nothing after the last hyphen", s)
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return EVR{}, malformed("version %.80q: it has a blank or control character", s)
	}
	return v, nil
}

// splitEVR splits a version like rpm: the epoch is the digits before a colon, the release follows
// the last hyphen.
func splitEVR(s string) EVR {
	var v EVR
	v.Version = s
	digits := 0
	for digits < len(s) && isDigit(s[digits]) {
		digits++
	}
	if digits < len(s) && s[digits] == ':' {
		v.Epoch = s[:digits]
		v.Version = s[digits+1:]
		if v.Epoch == "" {
			v.Epoch = "0"
		}
	}
	if i := strings.LastIndexByte(v.Version, '-'); i >= 0 {
		v.Version, v.Release = v.Version[:i], v.Version[i+1:]
	}
	return v
}

// String returns the version as written; an epoch of 0 is included if it was written.
func (v EVR) String() string {
	s := v.Version
	if v.Epoch != "" {
		s = v.Epoch + ":" + s
	}
	if v.Release != "" {
		s += "-" + v.Release
	}
	return s
}

// Compare returns -1, 0 or 1 if a is older than, as old as, or newer than b: first by epochs, then
// versions, then releases. A missing epoch counts as 0, a missing release as older than any other.
// In a Relation a missing release matches all releases: see Relation.Matches.
func Compare(a, b EVR) int {
	return cmp.Or(
		compareEpochs(a.Epoch, b.Epoch),
		CompareVersions(a.Version, b.Version),
		CompareVersions(a.Release, b.Release),
	)
}

func compareEpochs(a, b string) int {
	return compareNumbers(strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0"))
}

// CompareVersions orders two versions, or two releases, like rpm. Sequences of digits compare as
// numbers, sequences of letters by their bytes, and a number is newer than letters; all other
// characters only separate. A tilde sorts before the end of the text, a caret after the end but
// before anything else. "1.0" and "1_0" are equal. The result is -1, 0 or 1.
func CompareVersions(a, b string) int {
	if a == b {
		return 0
	}
	for {
		a = strings.TrimLeftFunc(a, separates)
		b = strings.TrimLeftFunc(b, separates)
		beginning := begins(a)
		if c := cmp.Compare(beginning, begins(b)); c != 0 {
			return c
		}
		switch beginning {
		case end:
			return 0
		case tilde, caret:
			a = a[1:]
			b = b[1:]
			continue
		}
		kind := isAlpha
		if isDigit(a[0]) {
			kind = isDigit
		}
		na := stretch(a, kind)
		nb := stretch(b, kind)
		if nb == 0 { // one is a number and the other letters: the number is newer
			if isDigit(a[0]) {
				return 1
			}
			return -1
		}
		c := strings.Compare(a[:na], b[:nb])
		if isDigit(a[0]) {
			c = compareNumbers(strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0"))
		}
		if c != 0 {
			return c
		}
		a = a[na:]
		b = b[nb:]
	}
}

// What the rest of a version begins with, the oldest first.
const (
	tilde = iota
	end
	caret
	sequence
)

func begins(s string) int {
	switch {
	case s == "":
		return end
	case s[0] == '~':
		return tilde
	case s[0] == '^':
		return caret
	}
	return sequence
}

// compareNumbers compares decimal numbers without leading zeros.
func compareNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func stretch(s string, kind func(byte) bool) int {
	n := 0
	for n < len(s) && kind(s[n]) {
		n++
	}
	return n
}

// separates reports whether a character only ends a sequence; letters of other alphabets do, too.
func separates(r rune) bool {
	return r >= 0x80 || !isDigit(byte(r)) && !isAlpha(byte(r)) && r != '~' && r != '^'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

package rpmfile

import (
	"cmp"
	"slices"
)

// Relation is a name with a range of versions: something required, provided, conflicted with or
// obsoleted.
type Relation struct {
	Name string
	Op   string // "<", "<=", "=", ">=" or ">"; "" for any version
	EVR  EVR    // zero if Op is ""
}

// String returns the relation in rpm's syntax: "glibc >= 2.17".
func (r Relation) String() string {
	if r.Op == "" {
		return r.Name
	}
	return r.Name + " " + r.Op + " " + r.EVR.String()
}

// Bits of the flags that headers have for each dependency, besides those of the operators.
const (
	// a recommendation; rpm 4.4 and SUSE's of that time write it among the requirements
	senseMissingOK = 1 << 19
	senseRPMLib    = 1 << 24 // a feature that rpm itself must have
)

// The bits of an operator; in the flags of headers they follow the lowest bit.
const (
	less = 1 << iota
	greater
	equal
)

// operators are the operators by their bits; with all bits, or with less and greater, any version
// is meant.
var operators = []string{"", "<", ">", "", "=", "<=", ">=", ""}

// Matches reports whether something provided meets the relation: the names are equal and the ranges
// overlap. A side without a version matches every version (unlike in Debian). A side without a
// release stands for all releases of its version if its range includes that version.
func (r Relation) Matches(provided Relation) bool {
	if r.Name != provided.Name {
		return false
	}
	if r.Op == "" || provided.Op == "" {
		return true
	}
	want := slices.Index(operators, r.Op)
	have := slices.Index(operators, provided.Op)
	c := cmp.Or(
		compareEpochs(r.EVR.Epoch, provided.EVR.Epoch),
		CompareVersions(r.EVR.Version, provided.EVR.Version),
	)
	if c == 0 {
		switch {
		case r.EVR.Release != "" && provided.EVR.Release != "":
			c = CompareVersions(r.EVR.Release, provided.EVR.Release)
		case r.EVR.Release != "" && have&equal != 0, provided.EVR.Release != "" && want&equal != 0:
			return true
		}
	}
	switch {
	case c < 0:
		return want&greater != 0 || have&less != 0
	case c > 0:
		return want&less != 0 || have&greater != 0
	}
	return want&have != 0
}

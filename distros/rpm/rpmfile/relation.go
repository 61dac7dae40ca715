package rpmfile

// Relation is a name with a range of versions: something required, provided, conflicted with or obsoleted.
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

// Bits of the flags that headers have for each dependency.
const (
	senseLess      = 1 << 1
	senseGreater   = 1 << 2
	senseEqual     = 1 << 3
	senseMissingOK = 1 << 19 // a recommendation; rpm 4.4 and SUSE's of that time write it among the requirements
	senseRPMLib    = 1 << 24 // a feature that rpm itself must have
)

// sense returns the operator as bits.
func sense(op string) uint64 {
	switch op {
	case "<":
		return senseLess
	case "<=":
		return senseLess | senseEqual
	case "=":
		return senseEqual
	case ">=":
		return senseGreater | senseEqual
	case ">":
		return senseGreater
	}
	return 0
}

// operator is the inverse of sense; it ignores other bits.
func operator(flags uint64) string {
	switch flags & (senseLess | senseGreater | senseEqual) {
	case senseLess:
		return "<"
	case senseLess | senseEqual:
		return "<="
	case senseEqual:
		return "="
	case senseGreater | senseEqual:
		return ">="
	case senseGreater:
		return ">"
	}
	return "" // none of the bits, or all of them: any version
}

// Matches reports whether something provided meets the relation: the names are equal and the ranges overlap.
// A side without a version matches every version (unlike in Debian). A side without a release stands for all
// releases of its version if its range includes that version.
func (r Relation) Matches(provided Relation) bool {
	if r.Name != provided.Name {
		return false
	}
	if r.Op == "" || provided.Op == "" {
		return true
	}
	want, have := sense(r.Op), sense(provided.Op)
	c := compareEpochs(r.EVR.Epoch, provided.EVR.Epoch)
	if c == 0 {
		c = CompareVersions(r.EVR.Version, provided.EVR.Version)
	}
	if c == 0 {
		switch {
		case r.EVR.Release != "" && provided.EVR.Release != "":
			c = CompareVersions(r.EVR.Release, provided.EVR.Release)
		case r.EVR.Release != "" && have&senseEqual != 0, provided.EVR.Release != "" && want&senseEqual != 0:
			return true
		}
	}
	switch {
	case c < 0:
		return want&senseGreater != 0 || have&senseLess != 0
	case c > 0:
		return want&senseLess != 0 || have&senseGreater != 0
	}
	return want&have&(senseLess|senseEqual|senseGreater) != 0
}

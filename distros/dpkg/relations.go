package dpkg

import (
	"errors"
	"strings"
)

// Relation is one alternative: a package, possibly only of certain versions.
type Relation struct {
	Name     string
	ArchQual string  // the text after the colon: any, native or an architecture; "" without a colon
	Op       string  // <<, <=, =, >= or >>; "" for any version
	Version  Version // "" without Op
}

// Relations is a conjunction of disjunctions: one alternative of each element must be met.
type Relations [][]Relation

// String returns the relation as written in control files.
func (r Relation) String() string {
	s := r.Name
	if r.ArchQual != "" {
		s += ":" + r.ArchQual
	}
	if r.Op != "" {
		s += " (" + r.Op + " " + string(r.Version) + ")"
	}
	return s
}

// Matches reports whether a version meets the relation's restriction. It does not compare names.
func (r Relation) Matches(v Version) bool {
	if r.Op == "" {
		return true
	}
	c := Compare(v, r.Version)
	switch r.Op {
	case "<<":
		return c < 0
	case "<=":
		return c <= 0
	case "=":
		return c == 0
	case ">=":
		return c >= 0
	}
	return c > 0
}

// String returns the field as written in control files.
func (rs Relations) String() string {
	groups := make([]string, len(rs))
	for i, group := range rs {
		alternatives := make([]string, len(group))
		for j, r := range group {
			alternatives[j] = r.String()
		}
		groups[i] = strings.Join(alternatives, " | ")
	}
	return strings.Join(groups, ", ")
}

// maxRelations bounds the alternatives of one field. The largest real Provides, of Debian's Rust
// packages, has fewer than 2000.
const maxRelations = 20000

// ParseRelations parses a field such as Depends or Provides of a binary package, which names
// neither architectures in square brackets nor build profiles: those are resolved when it is built.
// Mistakes are ErrFormat.
func ParseRelations(text string) (Relations, error) {
	var out Relations
	count := 0
	for group := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(group) == "" {
			continue // an empty field or a trailing comma; dpkg accepts both
		}
		var alternatives []Relation
		for alternative := range strings.SplitSeq(group, "|") {
			if count++; count > maxRelations {
				return nil, malformed("relation: more than %d packages in one field", maxRelations)
			}
			r, err := parseRelation(strings.TrimSpace(alternative))
			if err != nil {
				return nil, malformed("relation %.80q: %w", strings.TrimSpace(alternative), err)
			}
			alternatives = append(alternatives, r)
		}
		out = append(out, alternatives)
	}
	return out, nil
}

// parseRelation parses name[:qualifier] [(op version)].
func parseRelation(s string) (r Relation, err error) {
	end := strings.IndexAny(s, " \t\n\r(")
	if end < 0 {
		end = len(s)
	}
	name, qualifier, qualified := strings.Cut(s[:end], ":")
	r.Name = name
	r.ArchQual = qualifier
	if !validPackage(name) {
		return r, errors.New("want a package name")
	}
	if qualified && !validWord(qualifier) {
		return r, errors.New("want an architecture after the colon")
	}
	restriction := strings.TrimSpace(s[end:])
	if restriction == "" {
		return r, nil
	}
	inner, opened := strings.CutPrefix(restriction, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !opened || !closed {
		return r, errors.New("want (version) after the name")
	}
	r.Op, r.Version, err = parseConstraint(strings.TrimSpace(inner))
	return r, err
}

func parseConstraint(s string) (string, Version, error) {
	end := 0
	for end < len(s) && strings.IndexByte("<=>", s[end]) >= 0 {
		end++
	}
	op := s[:end]
	version := strings.TrimSpace(s[end:])
	switch op {
	case "<<", "<=", "=", ">=", ">>":
	case "<", ">": // the forms before 1996; dpkg still reads them as "or equal"
		op += "="
	case "": // for dpkg "(1.2)" means exactly 1.2
		op = "="
	default:
		return "", "", errors.New("want one of << <= = >= >> before the version")
	}
	if version == "" || strings.ContainsAny(version, " \t\r\n()") {
		return "", "", errors.New("want one version in brackets")
	}
	return op, Version(version), nil
}

// validPackage follows policy 5.6.1, except that it accepts upper case, which old archives have in
// virtual names.
func validPackage(s string) bool {
	return s != "" && isAlnum(s[0]) &&
		!strings.ContainsFunc(
			s,
			func(r rune) bool { return r > '~' || !isAlnum(byte(r)) && !strings.ContainsRune("+-._", r) },
		)
}

func validWord(s string) bool {
	return s != "" &&
		!strings.ContainsFunc(
			s,
			func(r rune) bool { return r > '~' || !isAlnum(byte(r)) && r != '-' },
		)
}

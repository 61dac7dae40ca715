package dpkg

import (
	"fmt"
	"slices"
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

// maxRelations bounds the alternatives of one field. The largest real Provides, of Debian's Rust packages,
// has fewer than 2000.
const maxRelations = 20000

// ParseRelations parses a field such as Depends or Provides for binary packages of one architecture. It drops
// alternatives that are restricted to other architectures ("[arm64]", "[!i386]"), alternatives that only a
// build profile activates, and groups without a remaining alternative. Mistakes are ErrFormat.
func ParseRelations(text, arch string) (Relations, error) {
	var out Relations
	count := 0
	for group := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(group) == "" {
			continue // an empty field or a trailing comma; dpkg accepts both
		}
		var kept []Relation
		for alternative := range strings.SplitSeq(group, "|") {
			if count++; count > maxRelations {
				return nil, fmt.Errorf("relation: %w: more than %d packages in one field", ErrFormat, maxRelations)
			}
			r, applies, err := parseRelation(alternative, arch)
			if err != nil {
				return nil, fmt.Errorf("relation %.80q: %w: %s", strings.TrimSpace(alternative), ErrFormat, err.Error())
			}
			if applies {
				kept = append(kept, r)
			}
		}
		if len(kept) > 0 {
			out = append(out, kept)
		}
	}
	return out, nil
}

type syntaxError string

func (e syntaxError) Error() string { return string(e) }

// parseRelation parses name[:qualifier] [(op version)] [[arch ...]] [<profile ...> ...].
func parseRelation(s, arch string) (r Relation, applies bool, err error) {
	s = strings.TrimSpace(s)
	end := strings.IndexAny(s, " \t\n\r([<")
	if end < 0 {
		end = len(s)
	}
	name, qualifier, qualified := strings.Cut(s[:end], ":")
	r.Name, r.ArchQual = name, qualifier
	if !validPackage(name) {
		return r, false, syntaxError("want a package name")
	}
	if qualified && !validWord(qualifier) {
		return r, false, syntaxError("want an architecture after the colon")
	}
	applies = true
	profiles, profilesApply := false, false
	for s = strings.TrimSpace(s[end:]); s != ""; s = strings.TrimSpace(s) {
		var inner string
		open := s[0]
		if inner, s, err = bracket(s); err != nil {
			return r, false, err
		}
		switch {
		case open == '(' && r.Op == "":
			if r.Op, r.Version, err = parseConstraint(inner); err != nil {
				return r, false, err
			}
		case open == '[':
			if applies, err = archApplies(inner, arch); err != nil {
				return r, false, err
			}
		case open == '<':
			profiles = true
			if len(strings.Fields(inner)) == 0 {
				return r, false, syntaxError("empty build profile")
			}
			profilesApply = profilesApply || noProfileApplies(inner)
		default:
			return r, false, syntaxError("two version restrictions")
		}
	}
	return r, applies && (!profiles || profilesApply), nil
}

// bracket splits the first bracketed part off a string.
func bracket(s string) (inner, rest string, err error) {
	closing := map[byte]string{'(': ")", '[': "]", '<': ">"}[s[0]]
	if closing == "" {
		return "", "", syntaxError("want (version), [architectures] or <profiles> after the name")
	}
	inner, rest, ok := strings.Cut(s[1:], closing)
	if !ok {
		return "", "", syntaxError("a bracket is not closed")
	}
	return strings.TrimSpace(inner), rest, nil
}

func parseConstraint(s string) (string, Version, error) {
	end := 0
	for end < len(s) && strings.IndexByte("<=>", s[end]) >= 0 {
		end++
	}
	op, version := s[:end], strings.TrimSpace(s[end:])
	switch op {
	case "<<", "<=", "=", ">=", ">>":
	case "<", ">": // the forms before 1996; dpkg still reads them as "or equal"
		op += "="
	case "": // for dpkg "(1.2)" means exactly 1.2
		op = "="
	default:
		return "", "", syntaxError("want one of << <= = >= >> before the version")
	}
	if version == "" || strings.ContainsAny(version, " \t\r\n()") {
		return "", "", syntaxError("want one version in brackets")
	}
	return op, Version(version), nil
}

// archApplies evaluates "amd64 arm64" or "!i386 !armhf". It knows the wildcards of the packages that we read:
// any, linux-any, any-<cpu>.
func archApplies(list, arch string) (bool, error) {
	words := strings.Fields(list)
	if len(words) == 0 {
		return false, syntaxError("empty list of architectures")
	}
	negated, listed := strings.HasPrefix(words[0], "!"), false
	for _, w := range words {
		name, not := strings.CutPrefix(w, "!")
		if not != negated || !validWord(name) {
			return false, syntaxError("want architectures, all or none with an exclamation mark")
		}
		listed = listed || name == arch || name == "any" || name == "linux-any" || name == "any-"+arch || name == "linux-"+arch
	}
	return listed != negated, nil
}

// noProfileApplies evaluates one <a !b> list without active build profiles: only negated terms hold.
func noProfileApplies(list string) bool {
	return !slices.ContainsFunc(strings.Fields(list), func(w string) bool { return w[0] != '!' })
}

// validPackage follows policy 5.6.1, except that it accepts upper case, which old archives have in virtual
// names.
func validPackage(s string) bool {
	return s != "" && isAlnum(s[0]) && !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || !isAlnum(byte(r)) && !strings.ContainsRune("+-._", r) })
}

func validWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || !isAlnum(byte(r)) && r != '-' })
}

package rpmfile

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Requirement is one requirement of a package: a single relation, or a rich dependency of several.
type Requirement struct {
	Relation Relation // used if Operator is ""
	// Operator is "" for a plain relation, otherwise it says how Parts are combined:
	//   "and", "or"  all of them, or one of them; two or more parts
	//   "with"       one package provides all parts; two or more parts
	//   "without"    a package provides the first part and not the second
	//   "if"         the first part is required if the second is met, otherwise the third, if there is one
	//   "unless"     the first part is required if the second is not met, otherwise the third, if there is one
	Operator string
	Parts    []Requirement
}

// Bounds on rich dependencies. Fedora's longest have 1000 bytes and a depth of 4.
const (
	maxRequirement = 16 << 10
	maxDepth       = 32
)

// String returns the requirement in rpm's syntax.
func (r Requirement) String() string {
	if r.Operator == "" {
		return r.Relation.String()
	}
	words := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		words[i] = p.String()
	}
	if (r.Operator == "if" || r.Operator == "unless") && len(words) == 3 {
		return "(" + words[0] + " " + r.Operator + " " + words[1] + " else " + words[2] + ")"
	}
	return "(" + strings.Join(words, " "+r.Operator+" ") + ")"
}

// ParseRequirement reads a dependency in rpm's syntax: "gcc", "glibc >= 2.17", "/usr/bin/perl", "(a
// if b else c)". Operators stand between blanks. Errors are ErrFormat.
func ParseRequirement(text string) (Requirement, error) {
	if len(text) > maxRequirement {
		return Requirement{}, malformed(
			"requirement %.80q: longer than %d bytes",
			text,
			maxRequirement,
		)
	}
	p := &requirementParser{rest: strings.TrimSpace(text)}
	r, err := p.dependency(0)
	if p.skip() != "" {
		err = cmp.Or(err, fmt.Errorf("%.40q follows its end", p.rest))
	}
	if err != nil {
		return Requirement{}, malformed("requirement %.80q: %w", text, err)
	}
	return r, nil
}

type requirementParser struct{ rest string }

// skip drops leading blanks and returns the rest.
func (p *requirementParser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " \t\n\r")
	return p.rest
}

// word returns the text up to the next blank, or up to a closing bracket that was not opened inside
// of it.
func (p *requirementParser) word() string {
	p.skip()
	open := 0
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '(':
			open++
		case c == ')' && open > 0:
			open--
		case c == ')', c == ' ', c == '\t', c == '\n', c == '\r':
			w := p.rest[:i]
			p.rest = p.rest[i:]
			return w
		}
	}
	w := p.rest
	p.rest = ""
	return w
}

func (p *requirementParser) dependency(depth int) (Requirement, error) {
	if !strings.HasPrefix(p.skip(), "(") {
		r, err := p.relation()
		return Requirement{Relation: r}, err
	}
	if depth >= maxDepth {
		return Requirement{}, fmt.Errorf("more than %d brackets inside of each other", maxDepth)
	}
	p.rest = p.rest[1:]
	first, err := p.dependency(depth + 1)
	if err != nil {
		return first, err
	}
	r := Requirement{Parts: []Requirement{first}}
	for !strings.HasPrefix(p.skip(), ")") {
		if err := p.operator(&r); err != nil {
			return r, err
		}
		next, err := p.dependency(depth + 1)
		if err != nil {
			return r, err
		}
		r.Parts = append(r.Parts, next)
	}
	p.rest = p.rest[1:]
	if r.Operator == "" { // "(a)" means a
		return first, nil
	}
	return r, nil
}

// operator reads the next word between the parts in a bracket.
func (p *requirementParser) operator(r *Requirement) error {
	if p.rest == "" {
		return errors.New("a bracket is not closed")
	}
	switch op := p.word(); {
	case op == "else" && (r.Operator == "if" || r.Operator == "unless") && len(r.Parts) == 2:
	case r.Operator == "" && (op == "and" || op == "or" || op == "with" || op == "without" || op == "if" || op == "unless"):
		r.Operator = op
	case op == r.Operator && (op == "and" || op == "or" || op == "with"):
	case r.Operator == "":
		return fmt.Errorf("%.40q: want and, or, if, unless, with or without", op)
	default:
		return fmt.Errorf("%.40q does not go with %q in one bracket; use more brackets", op, r.Operator)
	}
	return nil
}

// relation reads name [op version].
func (p *requirementParser) relation() (Relation, error) {
	r := Relation{Name: p.word()}
	if err := checkName(r.Name); err != nil {
		return r, err
	}
	before := p.rest
	switch op := p.word(); op {
	case "<", "<=", "=", ">=", ">":
		r.Op = op
	case "==":
		r.Op = "="
	case "=<":
		r.Op = "<="
	case "=>":
		r.Op = ">="
	default:
		p.rest = before
		return r, nil
	}
	text := p.word()
	evr, err := ParseEVR(text)
	if err != nil {
		return r, err
	}
	r.EVR = evr
	return r, nil
}

// checkName returns an error for an invalid name: a missing blank before an operator is the usual
// mistake.
func checkName(name string) error {
	if name == "" {
		return errors.New("there is no name")
	}
	open := 0
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ' || c == 0x7f:
			return fmt.Errorf("the name %.80q has a control character", name)
		case c == '(':
			open++
		case c == ')':
			open--
		case (c == '<' || c == '>' || c == '=') && open == 0 && name[0] != '/':
			return fmt.Errorf(
				"the name %.80q has %q in it; put blanks around the operator",
				name,
				c,
			)
		}
	}
	if open != 0 {
		return fmt.Errorf("the name %.80q has a bracket that is not closed", name)
	}
	return nil
}

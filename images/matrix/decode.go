package matrix

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// decoder walks the nodes of a file and collects every mistake with its position. It continues after each one
// and omits the wrong value, so that the rest of the file is checked too.
type decoder struct {
	file string
	errs Errors
	refs []reference // checked when the whole file is read

	files   Files
	changed []Interface // of the file, read before its drivers
}

func (d *decoder) errorAt(line, col int, message string) {
	d.errs = append(d.errs, &Error{File: d.file, Line: line, Col: col, Message: message})
}

func (d *decoder) errorf(n *yaml.Node, format string, args ...any) {
	d.errorAt(n.Line, n.Column, fmt.Sprintf(format, args...))
}

// tooManyErrors reports that there are more mistakes than will be reported, so the walk can stop.
func (d *decoder) tooManyErrors() bool { return len(d.errs) > maxErrors }

// refuseAliases refuses YAML features that a matrix does not need: anchors and aliases (a few lines of them
// can stand for gigabytes) and explicit tags.
func (d *decoder) refuseAliases(n *yaml.Node, what string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.errorf(n, "%s uses a YAML anchor or alias: write the value out", what)
	case n.Style&yaml.TaggedStyle != 0:
		d.errorf(n, "%s has a YAML tag: remove it", what)
	default:
		return true
	}
	return false
}

// reader stores the value of a node.
type reader func(n *yaml.Node)

// key is one key of a mapping.
type key struct {
	name     string
	required bool
	read     reader
}

// mapping reads a mapping with known keys.
func (d *decoder) mapping(n *yaml.Node, what string, keys ...key) {
	byName := make(map[string]key, len(keys))
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		byName[k.name], names = k, append(names, k.name)
	}
	seen := d.pairs(n, what, func(name string, at, value *yaml.Node) {
		if k, ok := byName[name]; ok {
			k.read(value)
			return
		}
		d.errorf(at, "unknown key %s in %s%s", quoted(name), what, suggest(name, names))
	})
	for _, k := range keys {
		if k.required && seen != nil && !seen[k.name] {
			d.errorf(n, "%s has no key %s", what, k.name)
		}
	}
}

// pairs calls visit once for each key of a mapping and refuses the second of two equal keys. It returns the
// keys, or nil when the node is not a mapping.
func (d *decoder) pairs(n *yaml.Node, what string, visit func(name string, at, value *yaml.Node)) map[string]bool {
	if !d.refuseAliases(n, what) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.errorf(n, "%s must be a mapping (key: value), not %s", what, kindOf(n))
		return nil
	}
	seen, lines := map[string]bool{}, map[string]int{}
	for i := 0; i+1 < len(n.Content) && !d.tooManyErrors(); i += 2 {
		at, value := n.Content[i], n.Content[i+1]
		if !d.refuseAliases(at, "a key of "+what) {
			continue
		}
		if at.Kind != yaml.ScalarNode {
			d.errorf(at, "a key of %s is %s, not a word", what, kindOf(at))
			continue
		}
		if seen[at.Value] {
			d.errorf(at, "key %s appears twice in %s: first on line %d", quoted(at.Value), what, lines[at.Value])
			continue
		}
		seen[at.Value], lines[at.Value] = true, at.Line
		visit(at.Value, at, value)
	}
	return seen
}

// list reads a sequence.
func (d *decoder) list(what string, each reader) reader {
	return func(n *yaml.Node) {
		if !d.refuseAliases(n, what) {
			return
		}
		if n.Kind != yaml.SequenceNode {
			d.errorf(n, "%s must be a list, not %s", what, kindOf(n))
			return
		}
		if len(n.Content) == 0 {
			d.errorf(n, "%s is an empty list: fill it or remove the key", what)
		}
		for _, item := range n.Content {
			if d.tooManyErrors() {
				return
			}
			each(item)
		}
	}
}

// check returns the mistake in a text, "" for none.
type check func(text string) string

// text reads a scalar as written.
func (d *decoder) text(what string, to *string, checks ...check) reader {
	return func(n *yaml.Node) {
		if !d.refuseAliases(n, what) {
			return
		}
		if n.Kind != yaml.ScalarNode {
			d.errorf(n, "%s must be a single value, not %s", what, kindOf(n))
			return
		}
		if n.Value == "" || n.Tag == "!!null" {
			d.errorf(n, "%s is empty: fill it or remove the key", what)
			return
		}
		for _, c := range checks {
			if wrong := c(n.Value); wrong != "" {
				d.errorf(n, "%s %s %s", what, quoted(n.Value), wrong)
				return
			}
		}
		*to = n.Value
	}
}

// texts reads a list of scalars and refuses the second of two equal ones.
func (d *decoder) texts(what string, to *[]string, checks ...check) reader {
	seen := map[string]bool{}
	return d.list(what, func(n *yaml.Node) {
		var s string
		d.text("an entry of "+what, &s, checks...)(n)
		switch {
		case s == "":
		case seen[s]:
			d.errorf(n, "%s appears twice in %s", quoted(s), what)
		default:
			seen[s] = true
			*to = append(*to, s)
		}
	})
}

// flag reads true or false.
func (d *decoder) flag(what string, to *bool) reader {
	return func(n *yaml.Node) {
		var s string
		d.text(what, &s, func(s string) string {
			if s != "true" && s != "false" {
				return "must be true or false"
			}
			return ""
		})(n)
		*to = s == "true"
	}
}

// size reads a number of bytes greater than zero.
func (d *decoder) size(what string, to *int64) reader {
	return func(n *yaml.Node) {
		var s string
		d.text(what, &s, func(s string) string {
			if v, err := strconv.ParseInt(s, 10, 64); err != nil || v <= 0 {
				return "must be a number of bytes greater than 0; leave the key out when it is not known"
			}
			return ""
		})(n)
		*to, _ = strconv.ParseInt(s, 10, 64) // checked above; "" after a mistake gives 0
	}
}

// kindOf returns the kind of a node, for messages.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.Tag == "!!null":
		return "empty"
	default:
		return "the value " + quoted(n.Value)
	}
}

package lockfile

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const header = `# What the images of the matrix are made from. driver-build lock writes this file: run it again rather than edit it, also
# after a merge with conflicts.
`

// Encode returns the bytes of the file: one package a line, so that a new version is one line of a diff. What
// the library would choose by itself (quotes, line breaks, the order of keys) is set here, so that another
// version of it writes the same bytes.
func (l *Lock) Encode() ([]byte, error) {
	all := map[string]section{}
	for name, t := range l.Targets {
		s := sectionOf(t)
		var err error
		if s.Digest, err = s.sum(name); err != nil {
			return nil, err
		}
		all[name] = s
	}
	return encode(all)
}

func encode(targets map[string]section) ([]byte, error) {
	var root yaml.Node
	if err := root.Encode(document{Schema: Schema, Targets: targets}); err != nil {
		return nil, fmt.Errorf("encode the lock: %w", err)
	}
	format(&root, false)
	text, err := yaml.Dump(&root, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("encode the lock: %w", err)
	}
	return append([]byte(header), quoted.ReplaceAllFunc(text, unquote)...), nil
}

// format sets the style of a node and all below it: mappings in lists on one line, quotes only around text
// that needs them.
func format(n *yaml.Node, flow bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!str" {
			n.Style = yaml.DoubleQuotedStyle
			if isPlain(n.Value) {
				n.Style = 0
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i].Value; key == "targets" || key == "headers" || key == "kernel-images" {
				sortKeys(n.Content[i+1])
			}
		}
	}
	if flow && n.Kind != yaml.ScalarNode {
		n.Style |= yaml.FlowStyle
	}
	for _, c := range n.Content {
		format(c, flow || n.Kind == yaml.SequenceNode)
	}
}

// sortKeys sorts a mapping by the bytes of its keys. The library would put "6.1.0-9" before "6.1.0-38".
func sortKeys(n *yaml.Node) {
	pairs := slices.Collect(slices.Chunk(n.Content, 2))
	slices.SortFunc(pairs, func(a, b []*yaml.Node) int { return cmp.Compare(a[0].Value, b[0].Value) })
	n.Content = slices.Concat(pairs...)
}

// quoted matches text in quotes. The library puts single quotes around plain text with a colon, such as an
// address, where that is part of a mapping on one line. It needs none there. All other quotes are double.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)

func unquote(s []byte) []byte { return bytes.Trim(s, "'") }

// plain are words that mean themselves in YAML without quotes: they begin with a letter, so that none is a
// number.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/+~@%=-]*(?::[A-Za-z0-9._/+~@%=-]+)*$`)

// reserved are words that are no text in some version of YAML.
var reserved = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

func isPlain(s string) bool {
	return plain.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s))
}

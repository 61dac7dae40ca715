package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// width is the longest line on which an object or a list of the schema is written whole.
const width = 120

// foreign is the reference that marks a name of NVIDIA's charts: any content is accepted, and a template
// says what to use instead.
const foreign = "#/definitions/foreign"

// document is values.schema.json with the order of its keys.
type document struct{ root *yaml.Node }

// describe returns the schema with a description for each value: the comment of values.yaml, or, for the
// names of NVIDIA's charts, what to use instead. Where several values share one definition, the comments
// of the first one describe it. Descriptions of other properties stay.
func describe(schema []byte, rows []Row, hints []byte) ([]byte, error) {
	var parsed, names yaml.Node
	if err := yaml.Unmarshal(schema, &parsed); err != nil { // JSON is YAML, and this parser keeps the order
		return nil, fmt.Errorf("read the chart's values.schema.json: %w", err)
	}
	if err := yaml.Unmarshal(hints, &names); err != nil {
		return nil, fmt.Errorf("read the names of NVIDIA's charts: %w", err)
	}
	if len(parsed.Content) != 1 || len(names.Content) != 1 {
		return nil, fmt.Errorf("read the chart's values.schema.json and files/foreign.yaml: one of them is empty")
	}
	d := document{parsed.Content[0]}
	for name, hint := range pairs(names.Content[0]) {
		if err := d.addForeign(name, hint.Value); err != nil {
			return nil, err
		}
	}
	done := map[*yaml.Node]bool{}
	for _, row := range rows {
		parent, name := d.parent(row.Path)
		property := member(member(parent, "properties"), name)
		if property == nil {
			return nil, fmt.Errorf("describe the chart's values: values.schema.json has no %s", row.Path)
		}
		if slices.ContainsFunc(rows, func(r Row) bool { return strings.HasPrefix(r.Path, row.Path+".") }) {
			mustHave(parent, name)
		}
		if !done[property] {
			set(property, "description", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: row.Text})
			done[property] = true
		}
	}
	var b bytes.Buffer
	if err := printJSON(&b, d.root, ""); err != nil {
		return nil, fmt.Errorf("write the chart's values.schema.json: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// parent returns the schema of the object that has the value, and the value's own name.
func (d document) parent(path string) (at *yaml.Node, name string) {
	at = d.root
	for {
		if ref := member(at, "$ref"); ref != nil {
			at = member(member(d.root, "definitions"), strings.TrimPrefix(ref.Value, "#/definitions/"))
		}
		first, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			return at, path
		}
		at, path = member(member(at, "properties"), first), rest
	}
}

// addForeign declares a name that is refused: of NVIDIA's charts, or one that this chart had. Those below `driver` belong to the GPU Operator's map of
// that name.
func (d document) addForeign(path, hint string) error {
	at, name := d.root, path
	if below, ok := strings.CutPrefix(path, "driver."); ok {
		at, name = member(member(d.root, "definitions"), "operatorDriver"), below
	} else if above, below, ok := strings.Cut(path, "."); ok {
		at, name = member(member(d.root, "properties"), above), below
	}
	properties := member(at, "properties")
	if properties == nil {
		return fmt.Errorf("declare %s of NVIDIA's charts: values.schema.json has no object for it", path)
	}
	if old := member(properties, name); old != nil && (member(old, "$ref") == nil || member(old, "$ref").Value != foreign) {
		return fmt.Errorf("declare %s of NVIDIA's charts: this chart has a value of that name", path)
	}
	text := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	set(properties, name, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
		text("description"), text("Refused: " + hint + "."), text("$ref"), text(foreign),
	}})
	return nil
}

// pairs ranges over the keys and values of a mapping in their order.
func pairs(mapping *yaml.Node) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i].Value, mapping.Content[i+1]) {
				return
			}
		}
	}
}

func member(mapping *yaml.Node, name string) *yaml.Node {
	for key, value := range pairs(mapping) {
		if key == name && mapping.Kind == yaml.MappingNode {
			return value
		}
	}
	return nil
}

// mustHave makes a member required. Helm takes a key without a value away, and templates read what is below it.
func mustHave(object *yaml.Node, name string) {
	list := member(object, "required")
	if list == nil {
		list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		set(object, "required", list)
	}
	if !slices.ContainsFunc(list.Content, func(n *yaml.Node) bool { return n.Value == name }) {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name})
	}
}

// set replaces a member; a new description comes first, another new member last.
func set(mapping *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content[i+1] = value
			return
		}
	}
	at := len(mapping.Content)
	if name == "description" {
		at = 0
	}
	mapping.Content = slices.Insert(mapping.Content, at, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}

// printJSON writes JSON: what fits on a line on one, anything else one member a line.
func printJSON(b *bytes.Buffer, n *yaml.Node, indent string) error {
	whole, err := compact(n)
	if err != nil {
		return err
	}
	described := n.Kind == yaml.MappingNode && member(n, "properties") != nil
	if n.Kind == yaml.ScalarNode || len(n.Content) == 0 || !described && len(indent)+len(whole) <= width {
		b.WriteString(whole)
		return nil
	}
	marks, step := "{}", 2
	if n.Kind == yaml.SequenceNode {
		marks, step = "[]", 1
	}
	b.WriteByte(marks[0])
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + indent + "  ")
		if step == 2 {
			key, err := compact(n.Content[i])
			if err != nil {
				return err
			}
			b.WriteString(key + ": ")
		}
		if err := printJSON(b, n.Content[i+step-1], indent+"  "); err != nil {
			return err
		}
	}
	b.WriteString("\n" + indent + marks[1:])
	return nil
}

// compact returns JSON on one line.
func compact(n *yaml.Node) (string, error) {
	var parts []string
	switch n.Kind {
	case yaml.ScalarNode:
		var value any
		if err := n.Decode(&value); err != nil {
			return "", fmt.Errorf("line %d: %w", n.Line, err)
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			return "", fmt.Errorf("line %d: %w", n.Line, err)
		}
		return strings.TrimSuffix(b.String(), "\n"), nil
	case yaml.SequenceNode:
		for _, item := range n.Content {
			text, err := compact(item)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	default:
		for key, value := range pairs(n) {
			text, err := compact(value)
			if err != nil {
				return "", err
			}
			parts = append(parts, fmt.Sprintf("%q: %s", key, text))
		}
		if len(parts) == 0 {
			return "{}", nil
		}
		return "{ " + strings.Join(parts, ", ") + " }", nil
	}
}

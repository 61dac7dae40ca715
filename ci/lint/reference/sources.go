package reference

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// ExitCodes returns a table of the constants of a Go file whose names begin with "Exit" or "exit". Their doc
// comments say "NAME means ...".
func ExitCodes(file string) (string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return "", fmt.Errorf("read the exit codes: %w", err)
	}
	var b strings.Builder
	b.WriteString("| code | means |\n|---|---|\n")
	found := 0
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "exit") {
				continue
			}
			value, literal := spec.Values[0].(*ast.BasicLit)
			name := spec.Names[0].Name
			means, documented := strings.CutPrefix(spec.Doc.Text(), name+" means ")
			if !literal || !documented {
				return "", fmt.Errorf("%s: %s is no number, or its comment does not begin with %q", file, name, name+" means ")
			}
			means = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(means), "."), "that ")
			fmt.Fprintf(&b, "| %s | %s |\n", value.Value, escape(means))
			found++
		}
	}
	if found == 0 {
		return "", fmt.Errorf("%s has no exit codes", file)
	}
	return b.String(), nil
}

type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Enum        []string          `json:"enum"`
	Items       *schema           `json:"items"`
	AnyOf       []*schema         `json:"anyOf"`
	Properties  map[string]schema `json:"properties"`
	Definitions map[string]schema `json:"definitions"`
}

// Fields returns a table of the fields of a JSON schema, those of its definitions included: "gpus[].uuid".
func Fields(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read a schema: %w", err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		return "", fmt.Errorf("read the schema %s: %w", file, err)
	}
	var b strings.Builder
	b.WriteString("| field | type | |\n|---|---|---|\n")
	if err := s.rows(&b, "", s, 0); err != nil {
		return "", fmt.Errorf("list the fields of the schema %s: %w", file, err)
	}
	return b.String(), nil
}

var errDeep = errors.New("its definitions contain each other")

// rows writes the fields of an object, and those of the objects in it.
func (s schema) rows(b *strings.Builder, under string, of schema, depth int) error {
	const maxDepth = 8
	if depth > maxDepth {
		return errDeep
	}
	if of.Ref != "" {
		of = s.Definitions[path.Base(of.Ref)]
	}
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		p := of.Properties[name]
		field, inside := under+name, p
		for _, choice := range p.AnyOf { // a list, or null
			if choice.Items != nil {
				inside.Items = choice.Items
			}
		}
		if inside.Items != nil {
			field, inside = field+"[]", *inside.Items
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", field, inside.kind(), p.about())
		if inside.Ref != "" {
			if err := s.rows(b, field+".", inside, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s schema) kind() string {
	switch {
	case s.Ref != "":
		return "object"
	case s.Format != "":
		return s.Format
	case len(s.Enum) > 0:
		return "string"
	}
	return s.Type
}

func (s schema) about() string {
	text := escape(s.Description)
	if len(s.Enum) > 0 {
		text += " `" + strings.Join(s.Enum, "`, `") + "`"
	}
	return strings.TrimSpace(text)
}

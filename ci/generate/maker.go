package main

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

const module = "github.com/driver-container/driver-container/"

// words are the values of types that have few.
var words = map[reflect.Type][]status.State{
	reflect.TypeFor[status.State](): {
		status.Waiting, status.Starting, status.Serving, status.Degraded, status.Stopping,
		status.Detached, status.Restored, status.Absent, status.Failed,
	},
}

// simple are the types of values that are neither lists nor objects.
var simple = map[reflect.Kind]string{
	reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number",
	reflect.Int: "integer", reflect.Int32: "integer", reflect.Int64: "integer",
	reflect.Uint: "integer", reflect.Uint32: "integer", reflect.Uint64: "integer",
}

// maker makes schemas of the JSON that encoding/json writes of types.
type maker struct {
	root        string                       // the project's folder
	definitions object                       // of structs
	comments    map[string]map[string]string // by folder of a package: "Type.Field" -> comment
}

// of returns the schema of a type. It knows what the published types need, and refuses the rest.
func (m maker) of(t reflect.Type) (object, error) {
	switch {
	case words[t] != nil:
		return object{"enum": words[t]}, nil
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}, nil
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}, nil
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return nil, fmt.Errorf("%s writes its JSON itself: say here what it looks like", t)
	}
	if name := simple[t.Kind()]; name != "" {
		return object{"type": name}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem())
	case reflect.Slice, reflect.Map:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}, nil
		}
		below, err := m.of(t.Elem())
		if t.Kind() == reflect.Map {
			return object{"type": "object", "additionalProperties": below}, err
		}
		return object{"type": "array", "items": below}, err
	case reflect.Struct:
		return m.object(t)
	case reflect.Interface: // any value
		return object{}, nil
	default:
		return nil, fmt.Errorf("%s is of a kind that no schema is made of", t)
	}
}

// object defines a struct and returns a reference to it.
func (m maker) object(t reflect.Type) (object, error) {
	name := strings.ReplaceAll(t.String(), ".", "-") // package-Type
	ref := object{"$ref": "#/definitions/" + name}
	if m.definitions[name] != nil {
		return ref, nil
	}
	properties := object{}
	required := []string{}
	made := object{
		"type":                 "object",
		"additionalProperties": false,
		"properties":           properties,
	}
	m.definitions[name] = made
	if err := m.fields(t, properties, &required); err != nil {
		return nil, err
	}
	if len(required) > 0 {
		made["required"] = required
	}
	return ref, nil
}

// fields adds the fields of a struct, and those of structs that are embedded in it.
func (m maker) fields(t reflect.Type, properties object, required *[]string) error {
	comments, err := m.commentsOf(t.PkgPath())
	if err != nil {
		return err
	}
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && key == "" {
			if err := m.fields(f.Type, properties, required); err != nil {
				return err
			}
			continue
		}
		key = cmp.Or(key, f.Name)
		of, err := m.of(f.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		if !strings.Contains(options, "omit") {
			*required = append(*required, key)
			if k := f.Type.Kind(); k == reflect.Slice || k == reflect.Map || k == reflect.Pointer {
				of = object{"anyOf": []any{of, object{"type": "null"}}}
			}
		}
		if text := comments[t.Name()+"."+f.Name]; text != "" {
			of["description"] = text
		}
		properties[key] = of
	}
	return nil
}

// commentsOf returns the comments of the fields of a package's structs.
func (m maker) commentsOf(pkg string) (map[string]string, error) {
	folder, ok := strings.CutPrefix(pkg, module)
	if found := m.comments[folder]; found != nil || !ok {
		return found, nil
	}
	paths, err := filepath.Glob(filepath.Join(m.root, folder, "*.go"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("package %s has no sources in %s: %w", pkg, folder, err)
	}
	found := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read the comments of package %s: %w", pkg, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
						found[spec.Name.Name+"."+name.Name] = text
					}
				}
			}
			return true
		})
	}
	m.comments[folder] = found
	return found, nil
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// foreign is the reference that marks a name of NVIDIA's charts: any content is accepted, and a
// template says what to use instead.
const foreign = "#/definitions/foreign"

type object = map[string]any

// member returns an object below another one, nil if there is none.
func member(at object, name string) object {
	below, _ := at[name].(object)
	return below
}

const (
	valuesFile = "values.yaml"
	schemaFile = "values.schema.json"
	hintsFile  = "files/foreign.yaml"
)

// describe returns values.schema.json with a description for each value: the comment of
// values.yaml, or, for the names of NVIDIA's charts, what to use instead. Where several values
// share one definition, the comments of the first one describe it. Descriptions of other properties
// stay.
func describe(chart fs.FS) (string, error) {
	rows, err := readValues(chart)
	if err != nil {
		return "", err
	}
	schema, err := fs.ReadFile(chart, schemaFile)
	if err != nil {
		return "", err
	}
	var root object
	err = json.Unmarshal(schema, &root)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", schemaFile, err)
	}
	err = addHints(chart, root)
	if err != nil {
		return "", err
	}
	for _, row := range slices.Backward(rows) {
		parent, name := find(root, row.Path)
		property := member(member(parent, "properties"), name)
		if property == nil {
			return "", fmt.Errorf("%s has no %s", schemaFile, row.Path)
		}
		property["description"] = row.Text
	}
	return indented(root)
}

// addHints declares the names of NVIDIA's charts.
func addHints(chart fs.FS, root object) error {
	hints, err := fs.ReadFile(chart, hintsFile)
	if err != nil {
		return err
	}
	var names map[string]string
	err = yaml.Unmarshal(hints, &names)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("read the %d names in %s: %w", len(names), hintsFile, err)
	}
	for name, hint := range names {
		err := addForeign(root, name, hint)
		if err != nil {
			return fmt.Errorf("declare %s of NVIDIA's charts: %w", name, err)
		}
	}
	return nil
}

// find returns the schema of the object that has the value, and the value's own name.
func find(root object, path string) (at object, name string) {
	for at = root; ; {
		if ref, ok := at["$ref"].(string); ok {
			at = member(member(root, "definitions"), strings.TrimPrefix(ref, "#/definitions/"))
		}
		first, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			return at, path
		}
		at = member(member(at, "properties"), first)
		path = rest
	}
}

// addForeign declares a name that is refused: of NVIDIA's charts, or one that this chart had. Those
// below `driver` belong to the GPU Operator's map of that name.
func addForeign(root object, path, hint string) error {
	at := root
	name := path
	if below, ok := strings.CutPrefix(path, "driver."); ok {
		at = member(member(root, "definitions"), "operatorDriver")
		name = below
	} else if above, below, ok := strings.Cut(path, "."); ok {
		at = member(member(root, "properties"), above)
		name = below
	}
	properties := member(at, "properties")
	if properties == nil {
		return errors.New("the schema has no object for it")
	}
	if old := member(properties, name); old != nil && old["$ref"] != foreign {
		return errors.New("this chart has a value of that name")
	}
	properties[name] = object{"description": "Refused: " + hint + ".", "$ref": foreign}
	return nil
}

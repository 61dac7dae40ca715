package main

import (
	"fmt"
	"io/fs"
	"slices"

	"go.yaml.in/yaml/v4"
)

// cleared are the values that a key without a value empties, as in most charts: one way to have no
// toleration at all. Any other key without a value means its default.
var cleared = append(
	[]string{"tolerations", "priorityClassName", "hostStateDir", "moduleSigning.cert"},
	whole...)

// chartDefaults returns values.yaml without comments, for the templates: helm does not show them
// the file itself. They give a value that is missing its default, and a cleared one nothing.
func chartDefaults(chart fs.FS) (string, error) {
	values, err := fs.ReadFile(chart, valuesFile)
	if err != nil {
		return "", err
	}
	var doc yaml.Node
	err = yaml.Unmarshal(values, &doc)
	if err != nil {
		return "", fmt.Errorf("read the chart's values.yaml: %w", err)
	}
	strip(&doc, "")
	return generated(valuesFile, &doc)
}

// strip removes the comments of a node and of those below it, and what is in the values that are
// cleared.
func strip(node *yaml.Node, path string) {
	node.HeadComment = ""
	node.LineComment = ""
	node.FootComment = ""
	if slices.Contains(cleared, path) {
		node.Content = nil
		node.Value = ""
		node.Style = yaml.FlowStyle
		if node.Kind == yaml.ScalarNode {
			node.Style = yaml.DoubleQuotedStyle
		}
	}
	for i, below := range node.Content {
		at := path
		if node.Kind == yaml.MappingNode && i%2 == 1 {
			at = joined(path, node.Content[i-1].Value)
		}
		strip(below, at)
	}
}

// joined names a value below another one, as chartValue does.
func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

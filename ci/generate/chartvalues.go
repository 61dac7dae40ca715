package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// chartValue is one value of the chart: its path ("image.tag"), the text of its comment, and its
// default as JSON, "" for a group of values.
type chartValue struct{ Path, Text, Default string }

// whole are values whose keys have no comments although they are mappings: Kubernetes defines them.
var whole = []string{"resources", "evict.resources", "dashboard.labels"}

// readValues returns the values of a chart.
func readValues(chart fs.FS) ([]chartValue, error) {
	values, err := fs.ReadFile(chart, valuesFile)
	if err != nil {
		return nil, err
	}
	return chartValues(values)
}

// chartValues returns the values in the order of the file. It is an error if a value has no
// comment.
func chartValues(values []byte) ([]chartValue, error) {
	var doc yaml.Node
	err := yaml.Unmarshal(values, &doc)
	if err != nil {
		return nil, fmt.Errorf("read the chart's values.yaml: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read the chart's values.yaml: it is no mapping")
	}
	// The parser attaches a comment at the head of the file to the document, and comments below a
	// group to the group's first key or to the group itself. So read comments from the lines.
	return walk(doc.Content[0], "", strings.Split(string(values), "\n"))
}

func walk(mapping *yaml.Node, prefix string, lines []string) ([]chartValue, error) {
	var rows []chartValue
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		value := mapping.Content[i+1]
		row := chartValue{Path: prefix + key.Value, Text: comment(lines, key.Line)}
		if row.Text == "" {
			return nil, fmt.Errorf("values.yaml:%d: %s has no comment above it", key.Line, row.Path)
		}
		group := value.Kind == yaml.MappingNode && len(value.Content) > 0 &&
			!slices.Contains(whole, row.Path)
		if !group {
			var err error
			row.Default, err = defaultOf(value)
			if err != nil {
				return nil, fmt.Errorf("values.yaml:%d: default of %s: %w", key.Line, row.Path, err)
			}
		}
		rows = append(rows, row)
		if group {
			below, err := walk(value, row.Path+".", lines)
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
		}
	}
	return rows, nil
}

// defaultOf returns a value as JSON.
func defaultOf(value *yaml.Node) (string, error) {
	var decoded any
	err := value.Decode(&decoded)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(decoded)
	return string(text), err
}

// valuesTable returns the table of the chart's README: every value with its default and what it
// does.
func valuesTable(root string) (string, error) {
	rows, err := readValues(os.DirFS(filepath.Join(root, chartDir)))
	if err != nil {
		return "", fmt.Errorf("read the chart's values: %w", err)
	}
	var table strings.Builder
	table.WriteString("| value | default | |\n|---|---|---|\n")
	for _, row := range rows {
		standard := ""
		if row.Default != "" {
			standard = "`" + row.Default + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", row.Path, standard, cell(row.Text))
	}
	return table.String(), nil
}

// comment joins the comment lines above a line; line counts from 1.
func comment(lines []string, line int) string {
	var found []string
	for i := line - 2; i >= 0; i-- {
		text, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "#")
		if !ok {
			break
		}
		found = append(found, strings.TrimSpace(text))
	}
	slices.Reverse(found)
	return strings.Join(found, " ")
}

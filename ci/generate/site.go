package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sitePages returns the pages that only the site has, by the names of their files.
func sitePages(root string) (map[string]string, error) {
	pages := map[string]string{}
	for _, program := range []struct{ name, folder, about string }{
		{"driver-build", "driver-build", "the program that makes driver images"},
		{"nvidia-driver", "driver-entrypoint", "the program of a driver image, also called driver-entrypoint"},
	} {
		text, err := helps(filepath.Join(root, "cmd", program.folder))
		if err != nil {
			return nil, err
		}
		pages[program.name+".md"] = fmt.Sprintf("---\noutline: 2\n---\n# %s: commands and flags\n\nWhat `--help` prints: %s.\n%s", program.name, program.about, text)
	}
	var err error
	if pages["metrics.md"], err = metrics(filepath.Join(root, "node/metrics")); err != nil {
		return nil, err
	}
	pages["schemas.md"], err = schemaPage(filepath.Join(root, schemaDir))
	return pages, err
}

// help finds where the description of a help text ends, and the name of the command, which ends before its arguments.
var help = regexp.MustCompile(`(?m)^Usage:\n  ((?:[a-z][a-z_-]*[ \n])+)`)

// helps returns a section for each help text that the tests of a program keep.
func helps(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "help-*.txt"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("find the help texts in %s: there are %d: %w", folder, len(files), err)
	}
	sections := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read a help text: %w", err)
		}
		at := help.FindSubmatchIndex(text)
		if at == nil {
			return "", fmt.Errorf("%s has no usage", file)
		}
		name := strings.TrimSpace(string(text[at[2]:at[3]]))
		about := strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`).Replace(string(bytes.TrimSpace(text[:at[0]])))
		sections[name] = fmt.Sprintf("\n## %s\n\n%s\n\n```txt\n%s\n```\n", name, about, bytes.TrimSpace(text[at[0]:]))
	}
	if len(sections) != len(files) {
		return "", fmt.Errorf("two of the %d help texts in %s are of one command", len(files), folder)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		b.WriteString(sections[name])
	}
	return b.String(), nil
}

// declared finds a metric in the source: its kind, name, help and labels.
var declared = regexp.MustCompile(`= (gauge|counter)\("([a-z_]+)", "((?:[^"\\]|\\.)+)"((?:, "[a-z_]+")*)\)`)

// metrics returns the page of the metrics that a package declares.
func metrics(folder string) (string, error) {
	page := "# Metrics\n\nOf `nvidia-driver init --metrics-addr`. All names begin with `nvidia_driver_`.\n\n| metric | kind | says | labels |\n|---|---|---|---|\n"
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	var rows []string
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			labels := strings.ReplaceAll(strings.TrimPrefix(m[4], ", "), `"`, "`")
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[2], m[1], cell(strings.TrimSuffix(m[3], ".")), labels))
		}
	}
	if err != nil || len(rows) == 0 {
		return "", fmt.Errorf("find the metrics in %s: %d are declared: %w", folder, len(rows), err)
	}
	slices.Sort(rows)
	return page + strings.Join(rows, ""), nil
}

// schema is what the page shows of a JSON schema.
type schema struct {
	Ref         string            `json:"$ref"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Type        any               `json:"type"` // a word, or several
	Format      string            `json:"format"`
	Enum        []any             `json:"enum"`
	Items       *schema           `json:"items"`
	AnyOf       []*schema         `json:"anyOf"`
	Properties  map[string]schema `json:"properties"`
	Definitions map[string]schema `json:"definitions"`
}

// schemaPage returns a table of the fields of each schema in a folder.
func schemaPage(folder string) (string, error) {
	pages := []string{"---\noutline: 2\n---\n# JSON schemas\n\nThe fields of what programs print with `-o json` and of the files that they read. The schemas themselves are in `docs/schema`.\n"}
	files, err := filepath.Glob(filepath.Join(folder, "*.schema.json"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("find the schemas in %s: there are %d: %w", folder, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read a schema: %w", err)
		}
		var s schema
		if err := json.Unmarshal(text, &s); err != nil {
			return "", fmt.Errorf("read the schema %s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".schema.json")
		pages = append(pages, fmt.Sprintf("\n## %s\n\n%s.\n\n| field | type | says |\n|---|---|---|\n%s", name, s.Title, s.rows("", s, nil)))
	}
	return strings.Join(pages, ""), nil
}

// rows returns the rows of an object's fields, and of those of the objects in it: "gpus[].uuid".
func (s schema) rows(under string, of schema, above []string) string {
	if of.Ref != "" {
		if slices.Contains(above, of.Ref) { // of a kind that contains itself
			return ""
		}
		above = append(slices.Clone(above), of.Ref)
		of = s.Definitions[path.Base(of.Ref)]
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		p := of.Properties[name]
		inside := p
		for _, choice := range p.AnyOf { // something, or null
			if choice.Type != "null" {
				inside = *choice
			}
		}
		field := under + name
		if inside.Items != nil {
			field, inside = field+"[]", *inside.Items
		}
		about := []string{cell(p.Description)}
		for _, word := range inside.Enum {
			about = append(about, fmt.Sprintf("`%v`", word))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field, inside.kind(), strings.TrimSpace(strings.Join(about, " ")))
		b.WriteString(s.rows(field+".", inside, above))
	}
	return b.String()
}

func (s schema) kind() string {
	switch {
	case s.Ref != "" || len(s.Properties) > 0:
		return "object"
	case s.Format != "":
		return s.Format
	case len(s.Enum) > 0:
		return "string"
	}
	if s.Type == nil {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Type), "[]"), " ", " or ")
}

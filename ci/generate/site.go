package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
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
		pages[program.name+".md"] = fmt.Sprintf(
			"---\noutline: 2\n---\n# %s: commands and flags\n\nWhat `--help` prints: %s.\n%s",
			program.name,
			program.about,
			text,
		)
	}
	var err error
	pages["metrics.md"], err = metrics(filepath.Join(root, "node/metrics"))
	if err != nil {
		return nil, err
	}
	values, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	pages["chart.md"] = fmt.Sprintf("# The chart: every value\n\n```yaml\n%s```\n", values)
	pages["schemas.md"], err = schemaPage(filepath.Join(root, schemaDir))
	return pages, err
}

// help finds where the description of a help text ends, and the name of the command, which ends
// before its arguments.
var help = regexp.MustCompile(`(?m)^Usage:\n  ((?:[a-z][a-z_-]*[ \n])+)`)

// helps returns a section for each help text that the tests of a program keep.
func helps(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "help-*.txt"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf(
			"find the help texts in %s: there are %d: %w",
			folder,
			len(files),
			err,
		)
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
		about := strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`).
			Replace(string(bytes.TrimSpace(text[:at[0]])))
		sections[name] = fmt.Sprintf(
			"\n## %s\n\n%s\n\n```txt\n%s\n```\n",
			name,
			about,
			bytes.TrimSpace(text[at[0]:]),
		)
	}
	if len(sections) != len(files) {
		return "", fmt.Errorf(
			"two of the %d help texts in %s are of one command",
			len(files),
			folder,
		)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		b.WriteString(sections[name])
	}
	return b.String(), nil
}

// declared finds a metric in the source: its kind, name, help and labels.
var declared = regexp.MustCompile(
	`= (gauge|counter)\("([a-z_]+)", "((?:[^"\\]|\\.)+)"((?:, "[a-z_]+")*)\)`,
)

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
			rows = append(
				rows,
				fmt.Sprintf(
					"| `%s` | %s | %s | %s |\n",
					m[2],
					m[1],
					cell(strings.TrimSuffix(m[3], ".")),
					labels,
				),
			)
		}
	}
	if err != nil || len(rows) == 0 {
		return "", fmt.Errorf("find the metrics in %s: %d are declared: %w", folder, len(rows), err)
	}
	slices.Sort(rows)
	return page + strings.Join(rows, ""), nil
}

// schemaPage returns the schemas in a folder as they are: each field has its comment in them.
func schemaPage(folder string) (string, error) {
	var page strings.Builder
	page.WriteString(
		"---\noutline: 2\n---\n# JSON schemas\n\nOf what programs print with `-o json` and of the files that they read; `docs/schema` has them too.\n",
	)
	files, err := filepath.Glob(filepath.Join(folder, "*.schema.json"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("find the schemas in %s: there are %d: %w", folder, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read a schema: %w", err)
		}
		fmt.Fprintf(
			&page,
			"\n## %s\n\n```json\n%s```\n",
			strings.TrimSuffix(filepath.Base(file), ".schema.json"),
			text,
		)
	}
	return page.String(), nil
}

package main

import (
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

// readAll returns the files that match a pattern, of which there must be one, by their paths.
func readAll(what, pattern string) (map[string]string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("find %s: %d files match %s: %w", what, len(paths), pattern, err)
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		files[path] = string(text)
	}
	return files, nil
}

// help finds where the description of a help text ends, and the name of the command, which ends
// before its arguments.
var help = regexp.MustCompile(`(?m)^Usage:\n  ((?:[a-z][a-z_-]*[ \n])+)`)

// helps returns a section for each help text that the tests of a program keep.
func helps(folder string) (string, error) {
	files, err := readAll("the help texts", filepath.Join(folder, "testdata", "help-*.txt"))
	if err != nil {
		return "", err
	}
	prose := strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)
	sections := map[string]string{}
	for file, text := range files {
		at := help.FindStringSubmatchIndex(text)
		if at == nil {
			return "", fmt.Errorf("%s has no usage", file)
		}
		name := strings.TrimSpace(text[at[2]:at[3]])
		if sections[name] != "" {
			return "", fmt.Errorf("%s is of a command that has another help text: %s", file, name)
		}
		about := prose.Replace(strings.TrimSpace(text[:at[0]]))
		usage := strings.TrimSpace(text[at[0]:])
		sections[name] = fmt.Sprintf("\n## %s\n\n%s\n\n```txt\n%s\n```\n", name, about, usage)
	}
	var page strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		page.WriteString(sections[name])
	}
	return page.String(), nil
}

// declared finds a metric in the source: its kind, name, help and labels.
var declared = regexp.MustCompile(
	`= (gauge|counter)\("([a-z_]+)", "((?:[^"\\]|\\.)+)"((?:, "[a-z_]+")*)\)`,
)

// metrics returns the page of the metrics that a package declares.
func metrics(folder string) (string, error) {
	page := "# Metrics\n\nOf `nvidia-driver init --metrics-addr`. All names begin with `nvidia_driver_`.\n\n| metric | kind | says | labels |\n|---|---|---|---|\n"
	files, err := readAll("the metrics", filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	var rows []string
	for _, text := range files {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			says := cell(strings.TrimSuffix(m[3], "."))
			labels := strings.ReplaceAll(strings.TrimPrefix(m[4], ", "), `"`, "`")
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[2], m[1], says, labels))
		}
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("no file in %s declares a metric", folder)
	}
	slices.Sort(rows)
	return page + strings.Join(rows, ""), nil
}

// schemaPage returns the schemas in a folder as they are: each field has its comment in them.
func schemaPage(folder string) (string, error) {
	files, err := readAll("the schemas", filepath.Join(folder, "*.schema.json"))
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString("---\noutline: 2\n---\n# JSON schemas\n\nOf what programs print with `-o json` and of the files that they read; `docs/schema` has them too.\n")
	for _, file := range slices.Sorted(maps.Keys(files)) {
		name := strings.TrimSuffix(filepath.Base(file), ".schema.json")
		fmt.Fprintf(&page, "\n## %s\n\n```json\n%s```\n", name, files[file])
	}
	return page.String(), nil
}

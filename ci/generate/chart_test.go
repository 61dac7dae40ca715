package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// valuesSchema is the part of JSON Schema that values.schema.json uses to declare values.
type valuesSchema struct {
	Ref         string                  `json:"$ref"`
	Properties  map[string]valuesSchema `json:"properties"`
	Definitions map[string]valuesSchema `json:"definitions"`
	Additional  json.RawMessage         `json:"additionalProperties"`
}

// paths returns the values that a schema declares, named as in chartValues.
func (s valuesSchema) paths(root valuesSchema, prefix string) []string {
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		s = root.Definitions[name]
	}
	var paths []string
	for name, below := range s.Properties {
		if strings.HasPrefix(below.Ref, foreign) { // names of NVIDIA's charts, which values.yaml does not have
			continue
		}
		paths = append(paths, prefix+name)
		if !slices.Contains(whole, prefix+name) {
			paths = append(paths, below.paths(root, prefix+name+".")...)
		}
	}
	return paths
}

// A value that only the schema or only values.yaml has is a mistake in one of them: the schema refuses all
// other values.
func TestSchemaKnowsTheValues(t *testing.T) {
	t.Parallel()
	text := require.Value(os.ReadFile(filepath.Join(project, chartDir, "values.schema.json")))(t)
	var s valuesSchema
	require.NoError(t, json.Unmarshal(text, &s))
	assert.Equalf(t, "false", string(s.Additional), "the schema allows values that it does not know: additionalProperties is %s", s.Additional)
	rows := require.Value(readValues(os.DirFS(filepath.Join(project, chartDir))))(t)
	var documented []string
	for _, r := range rows {
		documented = append(documented, r.Path)
	}
	// Intentionally not in values.yaml: helm's own values, a name of NVIDIA's charts, maps that are empty by default, and a key whose only
	// valid value always applies. A default of `enabled` would be a parent's condition, and its tags would have no effect.
	unlisted := regexp.MustCompile(`^(global|enabled|imagePullSecrets|updateStrategy.rollingUpdate.maxSurge|(moduleParameters|affinity|global)[.].*)$`).MatchString
	known := slices.DeleteFunc(s.paths(s, ""), unlisted)
	slices.Sort(known)
	slices.Sort(documented)
	assert.Samef(t, documented, known, "(-values.yaml +values.schema.json)")
}

// An editor shows the description of each value, and of each key of a value.
func TestSchemaDescribesTheValues(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	properties(t, fromYAML(t, read(t, filepath.Join(chartDir, schemaFile))), found)
	if len(found) < 150 {
		t.Errorf("only %d properties were found", len(found))
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	schema := `{"properties": {"a": {"$ref": "#/definitions/x"}, "b": {"$ref": "#/definitions/x"}, "driver": {}},
		"definitions": {"operatorDriver": {"properties": {}}, "x": {"properties": {"y": {"enum": ["0", 0, true, "\\s<"]}}}}}`
	const values, hints = "# A.\na:\n  # Y.\n  y: 0\n# B.\nb:\n  # As in a.\n  y: 0\n", "old: use a\ndriver.z: use b\n"
	described := func(values, schema, hints string) (string, error) {
		return describe(testfile.FS(map[string]string{valuesFile: values, schemaFile: schema, hintsFile: hints}))
	}
	got := require.Value(described(values, schema, hints))(t)
	var plain bytes.Buffer
	require.NoError(t, json.Compact(&plain, []byte(got)))
	for _, want := range []string{
		`"a":{"$ref":"#/definitions/x","description":"A."}`, `"b":{"$ref":"#/definitions/x","description":"B."}`,
		`{"y":{"description":"Y.","enum":["0",0,true,"\\s<"]}}`,
		`"old":{"$ref":"#/definitions/foreign","description":"Refused: use a."}`,
		`{"z":{"$ref":"#/definitions/foreign","description":"Refused: use b."}}`,
	} {
		assert.Containsf(t, plain.String(), want, "schema")
	}
	again := require.Value(described(values, got, hints))(t)
	assert.Equal(t, got, again)
	for hints, want := range map[string]string{
		"a: use b\n": "declare a of NVIDIA's charts: this chart has a value of that name", "": "read the 0 names", "[": "read the 0 names",
	} {
		assert.ErrorContainsf(t, assert.Err(described(values, schema, hints)), want, "%q", hints)
	}
	assert.ErrorContainsf(t, assert.Err(described("# C.\nc:\n  # D.\n  d: 0\n", schema, "old: x\n")), "has no c.d", "a value without schema")
}

// A hint names a value that the chart has.
func TestHintsNameValues(t *testing.T) {
	t.Parallel()
	var hints map[string]string
	require.NoError(t, yaml.Unmarshal(require.Value(os.ReadFile(filepath.Join(project, chartDir, "files/foreign.yaml")))(t), &hints))
	known := map[string]bool{}
	for _, row := range require.Value(readValues(os.DirFS(filepath.Join(project, chartDir))))(t) {
		known[row.Path] = true
	}
	for name, hint := range hints {
		value, ok := strings.CutPrefix(hint, "use ")
		if value = regexp.MustCompile(`^[A-Za-z.]+`).FindString(value); ok && !known[value] {
			t.Errorf("%s: %q: this chart has no value %q", name, hint, value)
		}
	}
}

func TestChartValues(t *testing.T) {
	t.Parallel()
	values := []byte(`# A group,
# in two lines.
image:
  # The tag | or not.
  tag: "535.10"
  # A list.
  secrets: []

# One that Kubernetes defines.
resources:
  # Not a row.
  requests:
    cpu: 50m
# A list with mappings.
tolerations:
  - key: a
    operator: Exists
`)
	rows := require.Value(chartValues(values))(t)
	want := []chartValue{
		{"image", "A group, in two lines.", ""}, {"image.tag", "The tag | or not.", `"535.10"`}, {"image.secrets", "A list.", "[]"},
		{"resources", "One that Kubernetes defines.", `{"requests":{"cpu":"50m"}}`},
		{"tolerations", "A list with mappings.", `[{"key":"a","operator":"Exists"}]`},
	}
	assert.Same(t, want, rows)
}

// The README's table has a row for each value.
func TestValuesTable(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	testfile.Write(t, filepath.Join(root, chartDir, "values.yaml"), "# A group.\na:\n  # `x` | y.\n  b: {}\n")
	table := require.Value(valuesTable(root))(t)
	assert.Equal(t, "| value | default | |\n|---|---|---|\n| `a` |  | A group. |\n| `a.b` | `{}` | `x` \\| y. |\n", table)
	assert.ErrorContains(t, assert.Err(valuesTable(t.TempDir())), "read the chart's values")
}

// The templates' defaults are those of values.yaml, except the cleared ones, which keep their type.
func TestChartDefaults(t *testing.T) {
	t.Parallel()
	text := require.Value(chartDefaults(testfile.FS(map[string]string{valuesFile: "# About a.\na:\n  b: 1 # One.\n# Of pods.\ntolerations:\n  - key: x\nhostStateDir: /var\nresources:\n  cpu: 1\n"})))(t)
	var got any
	require.NoError(t, yaml.Unmarshal([]byte(text), &got))
	want := map[string]any{"a": map[string]any{"b": 1}, "tolerations": []any{}, "hostStateDir": "", "resources": map[string]any{}}
	assert.Same(t, any(want), got)
	assert.ErrorContainsf(t, assert.Err(chartDefaults(testfile.FS(map[string]string{valuesFile: "a: ["}))), "read the chart's values.yaml", "no YAML")
}

// A missing block of values has its defaults: an upgrade with --reuse-values brings none for what a newer chart added.
func TestSchemaRequiresNoBlock(t *testing.T) {
	t.Parallel()
	text := require.Value(os.ReadFile(filepath.Join(project, chartDir, "values.schema.json")))(t)
	var root object
	require.NoError(t, json.Unmarshal(text, &root))
	for _, row := range require.Value(readValues(os.DirFS(filepath.Join(project, chartDir))))(t) {
		parent, name := find(root, row.Path)
		required, _ := parent["required"].([]any)
		if slices.Contains(required, any(name)) {
			t.Errorf("values.schema.json requires %s", row.Path)
		}
	}
}

// Each template begins with the defaults, whichever helm renders first.
func TestTemplatesBeginWithDefaults(t *testing.T) {
	t.Parallel()
	templates := os.DirFS(filepath.Join(project, chartDir, "templates"))
	require.NoError(t, fs.WalkDir(templates, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".tpl" {
			return err
		}
		text, err := fs.ReadFile(templates, path)
		if !strings.HasPrefix(string(text), `{{- include "nvidia-driver.defaults" . `) {
			t.Errorf("templates/%s does not begin with the template nvidia-driver.defaults", path)
		}
		return err
	}))
}

func TestChartValuesRefuses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"# x\na: 1\n\nb: 2\n":   "values.yaml:4: b has no comment above it",
		"# x\na:\n  b: 1\n":     "values.yaml:3: a.b has no comment above it",
		"- a\n":                 "it is no mapping",
		"":                      "it is no mapping",
		"# x\na: [\n":           "read the chart's values.yaml",
		"# x\na: 1 # beside\nb": "values.yaml",
	} {
		assert.ErrorContainsf(t, assert.Err(chartValues([]byte(values))), want, "%q", values)
	}
}

// Without the chart's folder the error says what was attempted.
func TestChartFilesFails(t *testing.T) {
	t.Parallel()
	assert.ErrorContainsf(t, assert.Err(chartFiles(t.TempDir())), "make the chart's ", "without a chart")
}

// Package schematest validates what programs print against the JSON schemas of docs/schema. It makes no
// schema: ci/lint/reference does.
package schematest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Validator returns a check of JSON text against a schema of docs/schema.
func Validator(t testing.TB, name string) func(text []byte) error {
	t.Helper()
	root := require.Value(os.Getwd())(t)
	for range 10 {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Dir(root)
	}
	schema := require.Value(os.ReadFile(filepath.Join(root, "docs", "schema", name)))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource(name, require.Value(jsonschema.UnmarshalJSON(bytes.NewReader(schema)))(t)))
	compiled := require.Value(c.Compile(name))(t)
	return func(text []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return compiled.Validate(value)
	}
}

// Check validates JSON text.
func Check(t testing.TB, name, text string) {
	t.Helper()
	if err := Validator(t, name)([]byte(text)); err != nil {
		t.Errorf("it does not match %s: %v\n%s", name, err, text)
	}
}

package goldentest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// SchemaValidator returns a check of JSON text against a schema of docs/schema.
func SchemaValidator(t testing.TB, name string) func(text []byte) error {
	t.Helper()
	schema := require.Value(
		os.ReadFile(filepath.Join(require.Value(tool.Project())(t), "docs", "schema", name)),
	)(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(
		t,
		c.AddResource(name, require.Value(jsonschema.UnmarshalJSON(bytes.NewReader(schema)))(t)),
	)
	compiled := require.Value(c.Compile(name))(t)
	return func(text []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return compiled.Validate(value)
	}
}

// Schema validates JSON text.
func Schema(t testing.TB, name, text string) {
	t.Helper()
	assert.NoErrorf(
		t,
		SchemaValidator(t, name)([]byte(text)),
		"it does not match %s:\n%s",
		name,
		text,
	)
}

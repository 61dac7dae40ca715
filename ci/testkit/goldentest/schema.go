package goldentest

import (
	"bytes"
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
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	file := filepath.Join(require.Value(tool.Project())(t), "docs", "schema", name)
	compiled := require.Value(c.Compile(file))(t)
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
	err := SchemaValidator(t, name)([]byte(text))
	assert.NoErrorf(t, err, "it does not match %s:\n%s", name, text)
}

package main

import (
	"testing"

	"github.com/driver-container/driver-container/ci/lint/reference"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestReference: the page has the flags of this program and its exit codes.
func TestReference(t *testing.T) {
	t.Parallel()
	_, flags := newSettings()
	reference.Page(t, "../../docs/evict.md", "cmd/driver-evict", map[string]string{
		"flags":      reference.Flags(flags),
		"exit codes": require.Value(reference.ExitCodes("main.go"))(t),
	})
}

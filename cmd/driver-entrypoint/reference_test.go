package main

import (
	"io"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lint/reference"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestReference: the pages have the flags and verbs of this program, its exit codes, and the fields of the
// status.
func TestReference(t *testing.T) {
	t.Parallel()
	p := &program{stdout: io.Discard, stderr: io.Discard}
	var verbs strings.Builder
	all := p.command(t.Context())
	first, _, err := all.Find([]string{"init"})
	require.NoError(t, err)
	verbs.WriteString(reference.Command(first, []reference.Section{{Title: "Flag", Flags: first.LocalNonPersistentFlags()}}, reference.Shared{Flags: all.PersistentFlags()}))
	for _, c := range all.Commands() {
		if c.IsAvailableCommand() && c != first {
			flags := []reference.Section{{Title: "Flag", Flags: c.LocalNonPersistentFlags()}}
			verbs.WriteString("\n" + reference.Command(c, flags, reference.Shared{Where: "`init`", Flags: first.LocalNonPersistentFlags()}))
		}
	}
	reference.Page(t, "../../docs/nvidia-driver.md", "cmd/driver-entrypoint", map[string]string{
		"verbs":  verbs.String(),
		"status": require.Value(reference.Fields("../../docs/schema/status.schema.json"))(t),
	})
	reference.Page(t, "../../docs/operations.md", "cmd/driver-entrypoint", map[string]string{"exit codes": require.Value(reference.ExitCodes("exit.go"))(t)})
}

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/lint/reference"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// TestReference: the pages have the flags and commands of this program, and its exit codes.
func TestReference(t *testing.T) {
	t.Parallel()
	root := newRootCmd(&session.App{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }})
	root.InitDefaultHelpCmd()
	parts := map[string]string{
		"exit codes": require.Value(reference.ExitCodes("session/exit.go"))(t),
		"flags":      reference.Flags(root.LocalNonPersistentFlags()), "flags of every command": reference.Flags(root.PersistentFlags()),
	}
	var all strings.Builder
	var list strings.Builder
	list.WriteString("| | command | does |\n|---|---|---|\n")
	for _, g := range root.Groups() {
		group := strings.TrimSuffix(g.Title, ":")
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && c.Name() != "help" {
				writeCommand(&all, root, c)
				fmt.Fprintf(&list, "| %s | `%s` | %s |\n", group, c.Name(), c.Short)
				group = ""
			}
		}
	}
	parts["commands"] = list.String()
	reference.Page(t, "../../docs/driver-build.md", "cmd/driver-build", parts)
	reference.Page(t, "../../docs/driver-build-commands.md", "cmd/driver-build", map[string]string{"commands": all.String()})
}

// writeCommand writes the reference of a command, or of the commands below it.
func writeCommand(b *strings.Builder, root, c *cobra.Command) {
	if c.HasAvailableSubCommands() && c.Name() != "completion" {
		for _, sub := range c.Commands() {
			writeCommand(b, root, sub)
		}
		return
	}
	sections := []reference.Section{{Title: "Flag", Flags: c.LocalFlags()}}
	b.WriteString(reference.Command(c, sections, reference.Shared{Where: "the [build](driver-build.md)", Flags: root.Flags()}) + "\n")
}

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/reference"
	"github.com/driver-container/driver-container/ci/require"
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

// TestVersionsOfPages: a driver that a page or the chart names is in the matrix, or was released by NVIDIA: a
// command with any other version fails, and a reader cannot know that it is an example.
func TestVersionsOfPages(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`\b[0-9]{3}\.[0-9]{2,3}\.[0-9]{2}\b`)
	known := map[string]bool{
		"550.144.06": true, // of vGPU, whose archives are not public
		"595.99.01":  true, // add-driver needs one that is in no matrix
	}
	read := func(pattern string, each func(file, text string)) {
		for _, file := range require.Value(filepath.Glob("../../" + pattern))(t) {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				each(file, string(require.Value(os.ReadFile(file))(t)))
			}
		}
	}
	for _, pattern := range []string{"matrix.yaml", "images/releases/data/*"} {
		read(pattern, func(_, text string) {
			for _, v := range version.FindAllString(text, -1) {
				known[v] = true
			}
		})
	}
	pages := 0
	for _, pattern := range []string{"docs/*.md", "*.md", "deploy/chart/*", "deploy/chart/templates/*", "deploy/manifests/*", "templates/*"} {
		read(pattern, func(file, text string) {
			pages++
			for _, v := range version.FindAllString(text, -1) {
				if !known[v] {
					t.Errorf("%s names the driver %s, which neither the matrix nor the list of NVIDIA's releases has", file, v)
				}
			}
		})
	}
	if pages < 20 {
		t.Errorf("%d pages were read", pages)
	}
}

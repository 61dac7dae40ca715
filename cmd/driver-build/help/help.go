// Package help lays out the help of driver-build: commands in groups by what a person wants to do, flags in
// groups by their subject. It knows names of commands and flags, and runs nothing.
package help

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// groups are the commands by what a person wants to do, in the order in which they are shown.
var groups = []struct {
	title    string
	commands []string
}{
	{"Build", []string{"list", "kernels", "fetch", "push"}},
	{"Look at images", []string{"inspect", "verify", "sbom"}},
	{"Fleet and CI", []string{"check", "plan", "fleet", "lock", "report", "drivers", "gpus", "matrix"}},
	{"Trust and air gap", []string{"sign", "attest", "bundle"}},
	{"Setup", []string{"doctor", "login", "logout", "completion", "version", "help"}},
}

// local are the commands, below the root, that use neither cache nor network. Their help does not repeat the
// flags of every command.
var local = []string{"bundle", "bundle list", "completion", "help", "list", "logout", "matrix", "version"}

// Arrange gives root and all its commands the help of this package. It is called when root has its commands.
// A command that is in no group is shown after the groups.
func Arrange(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
	setup := groups[len(groups)-1].title
	root.SetHelpCommandGroupID(setup)
	root.SetCompletionCommandGroupID(setup)
	root.SetUsageFunc(usage)
}

// usage prints everything of a command's help behind its description.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if !c.HasParent() || !c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	writeCommands(&b, c)
	writeFlags(&b, c)
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" tells more about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

func writeCommands(w io.Writer, c *cobra.Command) {
	titles := append(slices.Clone(c.Groups()), &cobra.Group{Title: "Commands:"})
	if len(titles) > 1 {
		titles[len(titles)-1].Title = "Other commands:"
	}
	for _, g := range titles {
		title := "\n" + g.Title + "\n"
		for _, sub := range c.Commands() {
			if sub.GroupID != g.ID || !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			fmt.Fprintf(w, "%s  %-*s %s\n", title, sub.NamePadding(), sub.Name(), sub.Short)
			title = ""
		}
	}
}

// isLocal says whether a command uses neither cache nor network.
func isLocal(c *cobra.Command) bool {
	path, _ := strings.CutPrefix(c.CommandPath(), c.Root().Name()+" ")
	return slices.Contains(local, path) || strings.HasPrefix(path, "completion ")
}

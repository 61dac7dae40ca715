package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/node/cli"
)

// first is what the help of the root has of the flags of a build; driver-build help build has all
// of them.
const first = `Flags of a build, the most used:
  --os SYSTEM, --driver VERSION   what to build, such as ubuntu22.04, 580.178.04
  --all                           every pair of the matrix that works
  --arch ARCH                     amd64 (default) or arm64, repeatable
  --kernel RELEASE                compile the modules for it, or for the latest
  --output oci:DIR                a layout (default oci:dist), or an archive
  --push, --repository REPO       or into a registry
  --module-key, --image-key FILE  sign the modules; sign the image
All flags: driver-build help build. Of a command: driver-build help COMMAND.
`

// usage prints the help of a command below its description: that of the root fits on one screen,
// and flags that every command has are one line.
func usage(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n%s", cli.Fold("  "+c.UseLine()+"\n", " ", "\n      "))
	if !c.HasParent() {
		b.WriteString("  driver-build COMMAND [flags]\n")
		commands(&b, c)
		b.WriteString(first)
	} else {
		fmt.Fprintf(&b, "\nExamples:\n%s\n\n", cli.Fold(c.Example, " -", " \\\n      "))
		commands(&b, c)
		section(&b, "Flags:", c.LocalFlags().FlagUsagesWrapped(cli.Width))
		if c.Name() == "build" {
			section(&b, "\nFlags of every command:", c.InheritedFlags().FlagUsagesWrapped(cli.Width))
		} else {
			section(&b, "\nFlags of every command, see driver-build help build:", flagNames(c.InheritedFlags(), func(f *pflag.Flag) bool { return !f.Hidden }))
		}
		section(&b, "\nRarely needed, see docs/build.md:", flagNames(c.Flags(), func(f *pflag.Flag) bool { return f.Hidden }))
	}
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}

func section(b *strings.Builder, title, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s\n%s", title, text)
	}
}

// commands lists those below c: those of the root in groups, and those of the last group in one
// line.
func commands(b *strings.Builder, c *cobra.Command) {
	groups := c.Groups()
	for i, group := range groups {
		var line []string
		b.WriteString(group.Title)
		for _, sub := range c.Commands() {
			switch {
			case sub.GroupID != group.ID:
			case i == len(groups)-1:
				line = append(line, sub.Name())
			default:
				fmt.Fprintf(b, "\n  %-*s %s", c.NamePadding(), sub.Name(), sub.Short)
			}
		}
		fmt.Fprintln(b, strings.TrimSuffix(" "+strings.Join(line, ", "), " "))
	}
	if c.HasParent() && c.HasAvailableSubCommands() {
		b.WriteString("Commands:\n")
		for _, sub := range c.Commands() {
			fmt.Fprintf(b, "  %-*s %s\n", c.NamePadding(), sub.Name(), sub.Short)
		}
		b.WriteString("\n")
	}
}

// flagNames are the names of the flags that count, on as many lines as they need.
func flagNames(all *pflag.FlagSet, counts func(*pflag.Flag) bool) string {
	line := ""
	all.VisitAll(func(f *pflag.Flag) {
		if counts(f) {
			line += " --" + f.Name
		}
	})
	if line == "" {
		return ""
	}
	return cli.Fold(" "+line+"\n", " ", "\n  ")
}

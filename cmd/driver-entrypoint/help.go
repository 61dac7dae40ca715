package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/node/cli"
)

// described finds the gap between a flag and its description.
var described = lazyregexp.New(`(?m)^( *--?\S.*?)   +`)

// describe lists flags with their descriptions below them: beside the longest name, half of the
// terminal would be left.
func describe(flags *pflag.FlagSet) string {
	const below = "\n            "
	return cli.Fold(described().ReplaceAllString(flags.FlagUsages(), "$1"+below), " ", below)
}

// usage prints the help of a command below its description. Cobra's own is as wide as the longest
// description of a flag.
func usage(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
	title := "Flags:"
	flags := c.LocalFlags()
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n\nCommands:\n", c.CommandPath())
		for _, sub := range c.Commands() {
			fmt.Fprintf(&b, "  %-*s %s\n", c.Commands()[0].NamePadding(), sub.Name(), sub.Short)
		}
		title = "Flags, besides those of init:"
		flags = pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, name := range []string{"accept-license", "help", "log-format", "version"} {
			flags.AddFlag(c.Flags().Lookup(name))
		}
	}
	fmt.Fprintf(&b, "\n%s\n%s", title, describe(flags))
	if c.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nFlags of every command:\n%s", describe(c.InheritedFlags()))
	}
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// TestHelpIsWhole: every command has an example that calls it, and is in a group.
func TestHelpIsWhole(t *testing.T) {
	t.Parallel()
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if !strings.Contains(c.Example, "  "+c.CommandPath()) {
			t.Errorf("%s: no example", c.CommandPath())
		}
		if c.HasParent() && !c.Parent().HasParent() && c.GroupID == "" {
			t.Errorf("%s: in no group of the help", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: example %q", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newRootCmd(&session.App{}))
}

func TestSuggestions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"lits":                           `unknown command "lits" for "driver-build" Did you mean this? list; usage: driver-build --os`,
		"bundle imprt":                   `unknown command "imprt" for "driver-build bundle"`,
		"list --flavor open":             "unknown flag: --flavor: did you mean --flavour?",
		"--drivers 1":                    "did you mean --driver?",
		"check --ofline":                 "did you mean --offline?",
		"list --repository x":            `unknown flag: --repository: "driver-build list --help" lists the flags`,
		"push --quiet-please-everything": "driver-build push --help",
		"-x":                             `"driver-build --help" lists the flags`,
	} {
		call(t.Context(), t, nil, strings.Fields(args)...).Want(t, 2, want)
	}
}

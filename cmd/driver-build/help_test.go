package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// TestFirstHelp: the help of the root fits on a screen of 80 by 40, and names flags that there are. No command has
// more than 45 flags of its own, and all together have 90; docs/build.md has the others.
func TestFirstHelp(t *testing.T) {
	t.Parallel()
	text := call(t.Context(), t, nil, "--help").Want(t, 0).Stdout
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		assert.Equalf(t, true, len(line) <= 80 && len(lines) <= 40, "%d lines, one has %d columns: %s", len(lines), len(line), line)
	}
	root := newRootCmd(&session.App{})
	for _, name := range regexp.MustCompile(`--[a-z-]+`).FindAllString(first, -1) {
		f := root.Flags().Lookup(name[2:])
		assert.Equalf(t, true, f != nil && !f.Hidden, "the first help has %s, which is no flag of a build", name)
	}
	all, page := map[string]bool{}, testfile.Read(t, "../../docs/build.md")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		own := 0
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden && !strings.Contains(page, "`--"+f.Name+"`") {
				t.Errorf("docs/build.md lacks --%s of %s", f.Name, c.CommandPath())
			}
			if !f.Hidden {
				all[f.Name], own = true, own+1
			}
		})
		assert.Equalf(t, true, own <= 45 || c == root, "%s has %d flags", c.CommandPath(), own)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	assert.Equalf(t, true, len(all) <= 90, "%d flags in all", len(all))
}

func TestSuggestions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"lits":                           `unknown command "lits" for "driver-build" Did you mean this? list; usage: driver-build --os`,
		"help buidl":                     `unknown command "buidl" for "driver-build" Did you mean this? build`,
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

// TestManPages makes the pages of a release: see goldentest.Man.
func TestManPages(t *testing.T) {
	t.Parallel()
	goldentest.Man(t, newRootCmd(&session.App{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}))
}

package help

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fewFlags is how many flags of its own a command may have before they are shown by subject.
const fewFlags = 10

// subjects are the flags by subject, in the order in which they are shown. A flag has one subject in all
// commands. Flags in no subject, or alone in theirs, are shown first, as what is special about a command.
var subjects = []struct {
	title string
	flags []string
}{
	{"What to build", []string{"os", "driver", "arch", "flavour", "all", "allow-incompatible", "no-fabric", "companions", "no-patches", "matrix", "cuda", "deny", "at", "profile", "dry-run"}},
	{"Sources", []string{"base", "source", "mirror", "lock", "releases", "entrypoint", "allow-missing-programs"}},
	{"Modules ahead of time", []string{
		"kernel", "kernel-from", "kernel-flavour", "modules", "one-image", "with-toolchain", "with-sources", "kmm",
		"builder", "builder-ca", "builder-cert", "builder-key", "builder-name", "compiles",
	}},
	{"Signatures and documents", []string{
		"sign-key", "sign-cert", "sign-passphrase-file", "image-key", "image-passphrase-file", "image-public-key", "sign-with",
		"signature-format", "key", "allow-unsigned", "sbom", "provenance",
	}},
	{"Output", []string{"output", "format", "compression", "push", "repository", "tag", "allow-public-registry"}},
	{"Layers of other builds", []string{"cache-from", "cache-to", "cache-key"}},
}

const ownTitle = "Flags"

// CommonTitle is the title of the flags of every command.
const CommonTitle = "Cache, connection and progress"

// Section is a group of a command's flags.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// Sections returns the flags of a command, by subject if it has many. The last section has the flags of every
// command, unless the command uses none of them.
func Sections(c *cobra.Command) []Section {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.HasParent() || c.PersistentFlags().Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	var bySubject []Section
	grouped := map[string]bool{}
	for _, s := range subjects {
		some := take(own, func(f *pflag.Flag) bool { return slices.Contains(s.flags, f.Name) })
		if count(own) > fewFlags && count(some) > 1 {
			bySubject = append(bySubject, Section{s.title, some})
			some.VisitAll(func(f *pflag.Flag) { grouped[f.Name] = true })
		}
	}
	all := append([]Section{{ownTitle, take(own, func(f *pflag.Flag) bool { return !grouped[f.Name] })}}, bySubject...)
	if !isLocal(c) {
		common := c.InheritedFlags()
		if !c.HasParent() {
			common = c.PersistentFlags()
		}
		all = append(all, Section{CommonTitle, common})
	}
	return all
}

// writeFlags prints the flags of a command.
func writeFlags(w io.Writer, c *cobra.Command) {
	for _, s := range Sections(c) {
		if s.Flags.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", s.Title, s.Flags.FlagUsages())
		}
	}
}

// take returns the flags that are wanted.
func take(from *pflag.FlagSet, wanted func(*pflag.Flag) bool) *pflag.FlagSet {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	from.VisitAll(func(f *pflag.Flag) {
		if wanted(f) {
			some.AddFlag(f)
		}
	})
	return some
}

func count(f *pflag.FlagSet) (n int) {
	f.VisitAll(func(*pflag.Flag) { n++ })
	return n
}

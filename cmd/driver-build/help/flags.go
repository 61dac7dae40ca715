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
	{"What to build", []string{"os", "driver", "arch", "flavour", "all", "allow-incompatible", "matrix", "profile", "dry-run"}},
	{"Sources", []string{"base", "source", "mirror", "lock", "releases", "entrypoint", "allow-missing-programs"}},
	{"Modules ahead of time", []string{
		"kernel", "kernel-flavour", "modules", "one-image", "with-toolchain", "with-sources",
		"builder", "builder-ca", "builder-cert", "builder-key", "builder-name", "compiles",
	}},
	{"Signatures and documents", []string{
		"sign-key", "sign-cert", "sign-passphrase-file", "image-key", "image-passphrase-file", "image-public-key", "sign-with",
		"signature-format", "key", "allow-unsigned", "sbom", "provenance",
	}},
	{"Output", []string{"output", "format", "compression", "push", "repository", "tag"}},
}

const (
	ownTitle    = "Flags"
	commonTitle = "Cache, connection and progress"
)

// writeFlags prints the flags of a command, by subject if it has many.
func writeFlags(w io.Writer, c *cobra.Command) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.HasParent() || c.PersistentFlags().Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	bySubject, grouped := map[string]*pflag.FlagSet{}, map[string]bool{}
	for _, s := range subjects {
		some := take(own, func(f *pflag.Flag) bool { return slices.Contains(s.flags, f.Name) })
		if count(own) > fewFlags && count(some) > 1 {
			bySubject[s.title] = some
			some.VisitAll(func(f *pflag.Flag) { grouped[f.Name] = true })
		}
	}
	write(w, ownTitle, take(own, func(f *pflag.Flag) bool { return !grouped[f.Name] }))
	for _, s := range subjects {
		write(w, s.title, bySubject[s.title])
	}
	if !isLocal(c) {
		common := c.InheritedFlags()
		if !c.HasParent() {
			common = c.PersistentFlags()
		}
		write(w, commonTitle, common)
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

func write(w io.Writer, title string, f *pflag.FlagSet) {
	if f != nil && f.HasAvailableFlags() {
		fmt.Fprintf(w, "\n%s:\n%s", title, f.FlagUsages())
	}
}

// Package completion says what a shell offers behind the flags and commands of driver-build. It reads the
// matrix and names of local files. It writes nothing and asks no server.
package completion

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// namesFile finds the flags that take a file or folder by what their help says.
var namesFile = regexp.MustCompile(`\b(FILE|DIR|PROGRAM|[Ff]ile|folder)\b`)

// Register gives all flags and arguments of root and its commands their completions. It is called when root
// has its commands.
func Register(root *cobra.Command) { register(root, root.Name()+" ") }

func register(c *cobra.Command, root string) {
	path := strings.TrimPrefix(c.CommandPath()+" ", root)
	each := func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			return
		}
		complete, ok := values[path+"--"+f.Name]
		if !ok {
			complete, ok = values["--"+f.Name]
		}
		switch {
		case ok && f.Value.Type() == "stringSlice":
			complete = list(complete)
		case !ok && namesFile.MatchString(f.Usage):
			return // files are what shells offer by themselves
		case !ok:
			complete = cobra.NoFileCompletions
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) //nolint:forbidigo // two completions of one flag: a mistake in this program, which every command shows
		}
	}
	c.Flags().VisitAll(each)
	c.PersistentFlags().VisitAll(each)
	if complete, ok := arguments[strings.TrimSuffix(path, " ")]; ok {
		c.ValidArgsFunction = complete // nil: files
	} else {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		register(sub, root)
	}
}

// words offers fixed words.
func words(all ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
	}
}

// list completes the last of several values that commas separate. Values that are there are not offered
// again.
func list(one cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		i := strings.LastIndex(begun, ",") + 1
		before, last := begun[:i], begun[i:]
		found, directive := one(c, args, last)
		var all []string
		for _, word := range found {
			name, _, _ := strings.Cut(word, "\t")
			if !strings.Contains(","+before, ","+name+",") {
				all = append(all, before+word)
			}
		}
		return all, directive
	}
}

// beginning returns the words that begin as a user began.
func beginning(begun string, all []string) (some []string) {
	for _, word := range all {
		if strings.HasPrefix(word, begun) {
			some = append(some, word)
		}
	}
	return some
}

package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// namesFile finds the flags that take a file or folder by what their help says.
var namesFile = regexp.MustCompile(`\b(FILE|DIR|PROGRAM|[Ff]ile|folder)\b`)

// completions are what a shell offers behind flags, by "--flag", or "command --flag" where a
// command has values of its own. Flags that are missing here take files if their help says so.
var completions = map[string]cobra.CompletionFunc{
	"--os":                   ofMatrix(func(p status.Pair) string { return p.System }),
	"--driver":               ofMatrix(func(p status.Pair) string { return p.Driver }),
	"--arch":                 words(matrix.Archs()...),
	"--deny":                 words(append(releases.WarningKinds(), "all")...),
	"--cuda":                 words(cudaReleases()...),
	"--flavour":              words(matrix.Proprietary, matrix.Open),
	"--profile":              words(append(matrix.Profiles(), string(recipe.ModulesOnly))...),
	"--kernel":               words("latest", "all"),
	"verify --kernel":        cobra.NoFileCompletions,
	"--builder":              words("auto", "chroot", "buildkit"),
	"--output":               words("oci:", "oci-archive:", "docker-archive:"),
	"bundle create --output": nil,
	"--only":                 words("base"),
}

// takesFiles finds the commands whose arguments may be files by their usage.
var takesFiles = regexp.MustCompile(`(^[a-z]+|/PATH) \[?(IMAGE|FILE)`)

// complete gives all flags and arguments of a command and those below it their completions.
func complete(c *cobra.Command) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	each := func(f *pflag.Flag) {
		offer, ok := completions[strings.TrimSpace(path+" --"+f.Name)]
		if !ok {
			offer, ok = completions["--"+f.Name]
		}
		if choices := session.Choices(f); choices != nil {
			offer = words(choices...)
		} else if !ok && !namesFile.MatchString(f.Usage) {
			offer = cobra.NoFileCompletions
		}
		if offer == nil || f.Value.Type() == "bool" {
			return // files are what shells offer by themselves
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, offer); err != nil {
			panic(err) //nolint:forbidigo // two completions of one flag: a mistake in this program, which every command shows
		}
	}
	c.Flags().VisitAll(each)
	c.PersistentFlags().VisitAll(each)
	switch {
	case path == "gpus":
		c.ValidArgsFunction = words(gpus.Generations()...)
	case !takesFiles.MatchString(c.Use):
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		complete(sub)
	}
}

// words offers fixed words.
func words(all ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		some := slices.DeleteFunc(
			slices.Clone(all),
			func(word string) bool { return !strings.HasPrefix(word, begun) },
		)
		return some, cobra.ShellCompDirectiveNoFileComp
	}
}

func cudaReleases() (all []string) {
	for _, r := range releases.CUDAReleases() {
		all = append(all, r.Version)
	}
	return all
}

// ofMatrix offers what the pairs of the matrix have that work together with what is on the command
// line. A matrix with mistakes has nothing to offer: the command itself reports them.
func ofMatrix(of func(status.Pair) string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		file := ""
		if f := c.Flags().Lookup("matrix"); f != nil {
			file = f.Value.String()
		}
		m, err := matrix.ReadFile(file, drivercontainer.Matrix, drivercontainer.Patches)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		given := func(flag string) []string {
			all, _ := c.Flags().GetStringSlice(flag) // the command may have no such flag
			return all
		}
		pairs, _ := status.Pairs(
			m,
			matrix.Selection{Systems: given("os"), Drivers: given("driver"), Archs: given("arch")},
		)
		var all []string
		for _, p := range pairs {
			if p.Excluded == "" && !slices.Contains(all, of(p)) {
				all = append(all, of(p))
			}
		}
		return words(all...)(c, args, begun)
	}
}

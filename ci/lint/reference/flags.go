package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var environment = regexp.MustCompile(` ?\(env ([A-Z0-9_, ]+)\)`)

// noDefaults are the texts of values that mean "not given".
var noDefaults = []string{"", "false", "0", "0s", "[]"}

// Flags returns a table of flags, "" if there are none. Flags with an environment variable, as package
// envflags describes it, give the table a column for it.
func Flags(flags *pflag.FlagSet) string { return table("flag", rows(flags)) }

// row is a flag: how it is written, its variables, its meaning.
type row struct{ flag, env, meaning string }

func rows(flags *pflag.FlagSet) (all []row) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		r := row{flag: name(f), meaning: escape(environment.ReplaceAllString(f.Usage, ""))}
		if env := environment.FindStringSubmatch(f.Usage); env != nil {
			r.env = "`" + strings.ReplaceAll(env[1], ", ", "`, `") + "`"
		}
		if !slices.Contains(noDefaults, f.DefValue) {
			r.meaning += fmt.Sprintf(" (default `%s`)", f.DefValue)
		}
		all = append(all, r)
	})
	return all
}

func table(title string, rows []row) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	if slices.ContainsFunc(rows, func(r row) bool { return r.env != "" }) {
		fmt.Fprintf(&b, "| %s | environment | meaning |\n|---|---|---|\n", title)
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.flag, r.env, r.meaning)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "| %s | meaning |\n|---|---|\n", title)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.flag, r.meaning)
	}
	return b.String()
}

// name is how a flag is written: its short form, and [=VALUE] if it may stand alone.
func name(f *pflag.Flag) string {
	long := "--" + f.Name
	if f.NoOptDefVal != "" && f.Value.Type() != "bool" {
		long += "[=" + f.NoOptDefVal + "]"
	}
	if f.Shorthand != "" {
		return fmt.Sprintf("`-%s`, `%s`", f.Shorthand, long)
	}
	return "`" + long + "`"
}

// Section is a group of a command's flags.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// Shared are the flags of a command that others have too. The others name them, and do not explain
// them again.
type Shared struct {
	Where string // a link, or the name of the command
	Flags *pflag.FlagSet
}

// Command returns the reference of a command: its call, its description and its own flags.
func Command(c *cobra.Command, sections []Section, shared Shared) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n    %s\n\n", c.CommandPath(), c.UseLine())
	about := c.Long
	if about == "" {
		about = sentence(c.Short)
	}
	b.WriteString(strings.NewReplacer("<", `\<`, "*", `\*`).Replace(about) + "\n")
	if c.HasExample() {
		b.WriteString("\n" + indented(c.Example) + "\n")
	}
	known := rows(shared.Flags)
	var same []string
	for _, s := range sections {
		var own []row
		for _, r := range rows(s.Flags) {
			if slices.Contains(known, r) {
				same = append(same, r.flag)
			} else {
				own = append(own, r)
			}
		}
		if len(own) > 0 {
			b.WriteString("\n" + table(strings.ToLower(s.Title), own))
		}
	}
	if len(same) > 0 {
		fmt.Fprintf(&b, "\nAs for %s: %s.\n", shared.Where, strings.Join(same, ", "))
	}
	return b.String()
}

// sentence writes a short description as a sentence.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// indented makes an example a block of code.
func indented(example string) string {
	var b strings.Builder
	for line := range strings.Lines(example) {
		b.WriteString("    " + strings.TrimPrefix(line, "  "))
	}
	return b.String()
}

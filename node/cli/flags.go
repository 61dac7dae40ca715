// Package cli is what commands share: flags that environment variables set, logs, and help that
// fits a terminal. It defines no flags.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Names are the environment variables of flags: the first one that is set counts.
type Names map[*pflag.Flag][]string

// Set sets flags that were not given from their environment variables.
func (n Names) Set(flags *pflag.FlagSet, env []string) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil {
			return
		}
		for _, name := range n[f] {
			if value := Lookup(env, name); value != "" {
				if serr := flags.Set(f.Name, value); serr != nil {
					err = fmt.Errorf("environment variable %s=%q: %w", name, value, Explain(serr))
				}
				return
			}
		}
	})
	return err
}

// wants are the values that flags of a type take.
var wants = map[string]string{
	"int": "a whole number", "int64": "a whole number", "bool": "true or false", "duration": "a duration, such as 90s, 5m or 1h30m",
	"stringSlice": "values separated by commas, without quotes",
}

// Explain says what a value has to be, in place of the error of Go's parsers. It returns other
// errors as they are.
func Explain(err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want, ok := wants[wrong.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s is %q; it must be %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

// Describe adds "(env NAME)" to the usage of a flag.
func (n Names) Describe(f *pflag.Flag) {
	if names := n[f]; len(names) > 0 && !strings.Contains(f.Usage, "(env ") {
		f.Usage += " (env " + strings.Join(names, ", ") + ")"
	}
}

// Lookup returns the value of a variable, "" if it is not set.
func Lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) { // the last one counts, as in execve
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// Unknown returns a text for each variable of env that begins with prefix and belongs to no flag
// and to none of others: a misspelt one, or one of another version of this program. A name of
// others that ends with "_" stands for all that begin with it. The variables that Kubernetes sets
// for services are left out, and so are values, which may be secret.
func (n Names) Unknown(env []string, prefix string, others ...string) (texts []string) {
	var known, words []string // words without the prefix, which makes all names alike
	for _, names := range n {
		for _, name := range names {
			known = append(known, name)
			if word, ok := strings.CutPrefix(name, prefix); ok {
				words = append(words, word)
			}
		}
	}
	slices.Sort(words)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || service(name) ||
			slices.ContainsFunc(others, func(o string) bool {
				return name == o || strings.HasSuffix(o, "_") && strings.HasPrefix(name, o)
			}) {
			continue
		}
		text := name
		if near := distros.Nearest(strings.TrimPrefix(name, prefix), words); len(near) > 0 {
			text = fmt.Sprintf("%s (did you mean %s%s?)", name, prefix, near[0])
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// service reports whether Kubernetes, or Docker before it, sets such a variable for a service.
func service(name string) bool {
	return strings.Contains(name, "_SERVICE_") || strings.HasSuffix(name, "_PORT") ||
		strings.Contains(name, "_PORT_")
}

// Width is that of a terminal on which help has to fit, in columns.
const Width = 80

// joined finds the ends of lines inside a paragraph.
var joined = lazyregexp.New(`(\S)\n(\S)`)

// Help prints what a command does, and its usage.
func Help(c *cobra.Command, _ []string) {
	about := joined().ReplaceAllString(cmp.Or(c.Long, c.Short), "$1 $2")
	fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", Fold(about, " ", "\n"), c.UsageString())
}

// Fold puts a break into lines that are wider than Width, where they have a gap, else at a space.
func Fold(text, gap, broken string) string {
	end, indent, _ := strings.Cut(broken, "\n")
	var b strings.Builder
	for line := range strings.Lines(text) {
		for len(strings.TrimSuffix(line, "\n")) > Width {
			at := strings.LastIndex(line[:Width-1], gap)
			if at <= len(indent) {
				at = strings.LastIndexByte(line[:Width-1], ' ')
			}
			b.WriteString(line[:at] + end + "\n")
			line = indent + line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

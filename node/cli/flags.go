// Package cli is what commands share: flags that environment variables set, logs, and help that fits a terminal. It
// defines no flags.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
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

// Explain says what a value has to be, in place of the error of Go's parsers. It returns other errors as they
// are.
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

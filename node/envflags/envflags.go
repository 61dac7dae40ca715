// Package envflags sets the flags of the programs on a node from environment variables. It defines no flags
// and prints nothing.
package envflags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Names are the environment variables of flags: the first one that is set counts.
type Names map[string][]string

// Set sets flags that were not given from their environment variables.
func (n Names) Set(flags *pflag.FlagSet, env []string) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil {
			return
		}
		for _, name := range n[f.Name] {
			if value := Lookup(env, name); value != "" {
				if serr := flags.Set(f.Name, value); serr != nil {
					err = fmt.Errorf("environment variable %s=%q: %w", name, value, serr)
				}
				return
			}
		}
	})
	return err
}

// Describe adds "(env NAME)" to the usage of a flag.
func (n Names) Describe(f *pflag.Flag) {
	if names := n[f.Name]; len(names) > 0 && !strings.Contains(f.Usage, "(env ") {
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

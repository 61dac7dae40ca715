package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// Describe gives a flag another help than elsewhere.
func Describe(f *pflag.FlagSet, name, usage string) { f.Lookup(name).Usage = usage }

// Format declares -o of a command; the first word is its default: "table, json or yaml".
func Format[T ~string](f *pflag.FlagSet, value *T, words string) {
	Choice(f, value, "format", "o", words)
}

// Choice declares a flag that takes one of the words at the end of its help: "how to show progress:
// auto, tty or plain". The first is its default.
func Choice[T ~string](f *pflag.FlagSet, value *T, name, short, usage string) {
	all := strings.Split(
		strings.ReplaceAll(
			strings.TrimSpace(usage[strings.LastIndex(usage, ":")+1:]),
			" or ",
			", ",
		),
		", ",
	)
	*value = T(all[0])
	f.VarP(&choice[T]{value, all}, name, short, usage)
}

// Mode is Choice of a flag that is off unless it is given; alone, it means the first word.
func Mode[T ~string](f *pflag.FlagSet, value *T, name, usage string) {
	Choice(f, value, name, "", usage)
	flag := f.Lookup(name)
	flag.NoOptDefVal, flag.DefValue, *value = string(*value), "", ""
}

type choice[T ~string] struct {
	value *T
	words []string
}

func (c *choice[T]) String() string { return string(*c.value) }

func (c *choice[T]) Type() string { return "string" }

func (c *choice[T]) choices() []string { return c.words }

func (c *choice[T]) Set(text string) error {
	if !slices.Contains(c.words, text) {
		last := len(c.words) - 1
		return fmt.Errorf("use %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	*c.value = T(text)
	return nil
}

// Choices are the words that a flag takes, nil if it takes others.
func Choices(f *pflag.Flag) []string {
	if c, ok := f.Value.(interface{ choices() []string }); ok {
		return c.choices()
	}
	return nil
}

// parsed is the value of a flag that parse checks and completes, each part of a list by itself.
type parsed struct {
	pflag.Value

	parse func(string) (string, error)
}

func (v parsed) Set(text string) error {
	parts := []string{text}
	if v.Type() == "stringSlice" {
		parts = strings.Split(text, ",")
	}
	for i, part := range parts {
		var err error
		parts[i], err = v.parse(part)
		if err != nil {
			return Usage(err)
		}
	}
	return v.Value.Set(strings.Join(parts, ","))
}

// GetSlice returns the parts of a list, and any other value as a list of one.
func (v parsed) GetSlice() []string {
	list, ok := v.Value.(pflag.SliceValue)
	if ok {
		return list.GetSlice()
	}
	return []string{v.String()}
}

func parse(f *pflag.FlagSet, with func(string) (string, error), names []string) {
	for _, name := range names {
		flag := f.Lookup(name)
		none := flag.DefValue == "[]"
		flag.Value = parsed{flag.Value, with}
		if none {
			flag.DefValue = ""
		}
	}
}

// Check makes flags refuse values with an error of check.
func Check(f *pflag.FlagSet, check func(string) error, names ...string) {
	parse(f, func(text string) (string, error) { return text, check(text) }, names)
}

// CheckUnless is Check of flags that take a word besides.
func CheckUnless(f *pflag.FlagSet, word string, check func(string) error, names ...string) {
	Check(f, func(text string) error {
		if text == word {
			return nil
		}
		return check(text)
	}, names...)
}

// Images says that flags name images, as arguments do. One of this machine has to be there.
func Images(f *pflag.FlagSet, names ...string) { parse(f, image, names) }

func image(text string) (string, error) {
	text = oci.Named(text)
	return text, registry.CheckSource(text)
}

// ImageArgs says that the arguments of a command, so many of them, name images.
func ImageArgs(count cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := count(cmd, args)
		if err != nil {
			return err
		}
		for i := range args {
			args[i], err = image(args[i])
			if failure.KindOf(err) == failure.Content { // it is an image, and damaged
				return fmt.Errorf("%s: %w", cmd.Name(), err)
			}
			if err != nil {
				return Usagef("%s: %w", cmd.Name(), err)
			}
			if !oci.IsLocal(args[i]) && !strings.Contains(args[i], "/") {
				return Usagef(
					"%s: %q names no registry, and no layout or archive here has that name: give REGISTRY/PATH:TAG, or oci:DIR:TAG",
					cmd.Name(),
					args[i],
				)
			}
		}
		return nil
	}
}

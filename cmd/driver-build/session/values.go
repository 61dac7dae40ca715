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

// Format declares --format and -o. The first of the words is the default.
func Format[T ~string](f *pflag.FlagSet, value *T, words ...T) {
	declareChoice(f, value, "format", "o", "what is printed", words)
}

// Choice declares a flag that takes one of some words, which its help lists behind usage. The first
// is its default.
func Choice[T ~string](f *pflag.FlagSet, value *T, name, usage string, words ...T) {
	declareChoice(f, value, name, "", usage, words)
}

func declareChoice[T ~string](
	f *pflag.FlagSet,
	value *T,
	name, short, usage string,
	words []T,
) *pflag.Flag {
	*value = words[0]
	c := &choice[T]{value: value, words: words}
	return f.VarPF(c, name, short, usage+": "+c.list())
}

// Mode is Choice of a flag that is off unless it is given; alone, it means the first word.
func Mode[T ~string](f *pflag.FlagSet, value *T, name, usage string, words ...T) {
	flag := declareChoice(f, value, name, "", usage, words)
	flag.NoOptDefVal = string(words[0])
	flag.DefValue = ""
	*value = ""
}

type choice[T ~string] struct {
	value *T
	words []T
}

func (c *choice[T]) String() string { return string(*c.value) }

func (c *choice[T]) Type() string { return "string" }

func (c *choice[T]) choices() []string {
	var all []string
	for _, word := range c.words {
		all = append(all, string(word))
	}
	return all
}

// list is the words as a sentence has them: "auto, tty or plain".
func (c *choice[T]) list() string {
	all := c.choices()
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func (c *choice[T]) Set(text string) error {
	if !slices.Contains(c.words, T(text)) {
		return fmt.Errorf("use %s", c.list())
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

// Parser checks a value of a flag, and may complete it.
type Parser func(text string) (string, error)

// Valid is a Parser that takes what check finds no error in.
func Valid(check func(string) error) Parser {
	return func(text string) (string, error) { return text, check(text) }
}

// Or is a Parser that takes a word besides.
func (p Parser) Or(word string) Parser {
	return func(text string) (string, error) {
		if text == word {
			return text, nil
		}
		return p(text)
	}
}

// Image is a Parser of images, as arguments name them. One of this machine has to be there.
func Image(text string) (string, error) {
	text = oci.Named(text)
	return text, registry.CheckSource(text)
}

// String is the value of a flag that parse takes.
func String(value *string, parse Parser) pflag.Value { return &stringValue{value, parse} }

type stringValue struct {
	value *string
	parse Parser
}

func (s *stringValue) String() string { return *s.value }

func (s *stringValue) Type() string { return "string" }

func (s *stringValue) Set(text string) error {
	parsed, err := s.parse(text)
	if err != nil {
		return Usage(err)
	}
	*s.value = parsed
	return nil
}

// Array is the value of a flag that may be repeated, each time with a text that parse takes.
func Array(values *[]string, parse Parser) pflag.Value {
	return &arrayValue{values: values, parse: parse}
}

// Slice is Array of texts that may be lists with commas.
func Slice(values *[]string, parse Parser) pflag.Value {
	return &arrayValue{values: values, parse: parse, commas: true}
}

type arrayValue struct {
	values *[]string
	parse  Parser
	commas bool
}

func (a *arrayValue) String() string { return strings.Join(*a.values, ",") }

func (a *arrayValue) Type() string {
	if a.commas {
		return "stringSlice"
	}
	return "stringArray"
}

func (a *arrayValue) Set(text string) error {
	parts := []string{text}
	if a.commas {
		parts = strings.Split(text, ",")
	}
	for _, part := range parts {
		parsed, err := a.parse(part)
		if err != nil {
			return Usage(err)
		}
		*a.values = append(*a.values, parsed)
	}
	return nil
}

// GetSlice returns the texts, as pflag's lists do.
func (a *arrayValue) GetSlice() []string { return *a.values }

// Rare declares flags that few people set: the help has their names in one line.
func Rare(f *pflag.FlagSet, declare func(*pflag.FlagSet)) {
	rare := pflag.NewFlagSet("", pflag.ContinueOnError)
	declare(rare)
	rare.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	f.AddFlagSet(rare)
}

// ImageArgs says that the arguments of a command, so many of them, name images.
func ImageArgs(count cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := count(cmd, args)
		if err != nil {
			return err
		}
		for i := range args {
			args[i], err = Image(args[i])
			if failure.KindOf(err) == failure.Content { // it is an image, and damaged
				return fmt.Errorf("%s: %w", cmd.Name(), err)
			}
			if err != nil {
				return Usagef("%s: %w", cmd.Name(), err)
			}
			if !oci.IsLocal(args[i]) && !strings.Contains(args[i], "/") {
				return Usagef(
					"%s: %q names no registry, and no layout or archive here has that name: "+
						"give REGISTRY/PATH:TAG, or oci:DIR:TAG",
					cmd.Name(),
					args[i],
				)
			}
		}
		return nil
	}
}

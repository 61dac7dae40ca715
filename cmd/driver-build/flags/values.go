package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/oci"
)

// AddTo declares those of the flags that names has, separated by spaces.
func (c *Common) AddTo(f *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.declare(all)
	for name := range strings.FieldsSeq(strings.Join(names, " ")) {
		f.AddFlag(all.Lookup(name))
	}
}

// Describe gives a flag another help than elsewhere.
func Describe(f *pflag.FlagSet, name, usage string) { f.Lookup(name).Usage = usage }

// Format declares -o of a command; the first word is its default: "table, json or yaml".
func Format(f *pflag.FlagSet, value *string, words string) {
	Choice(f, value, "format", "o", words)
}

// Choice declares a flag that takes one of the words at the end of its help.
func Choice(f *pflag.FlagSet, value *string, name, short, usage string) {
	all := wordsOf(usage)
	*value = all[0]
	f.VarP(&choice{value, all}, name, short, usage)
}

// wordsOf are those of a help such as "how to show progress: auto, tty or plain".
func wordsOf(usage string) []string {
	return strings.Split(strings.ReplaceAll(strings.TrimSpace(usage[strings.LastIndex(usage, ":")+1:]), " or ", ", "), ", ")
}

type choice struct {
	value *string
	words []string
}

func (c *choice) String() string { return *c.value }

func (c *choice) Type() string { return "string" }

func (c *choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		last := len(c.words) - 1
		return fmt.Errorf("use %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	*c.value = text
	return nil
}

// Choices are the words that a flag takes, nil if it takes others.
func Choices(f *pflag.Flag) []string {
	if c, ok := f.Value.(*choice); ok {
		return c.words
	}
	return nil
}

// imageValue is the value of a flag that names images.
type imageValue struct{ pflag.Value }

func (v imageValue) Set(text string) error { return v.Value.Set(oci.Named(text)) }

// Images says that flags name images, as arguments do.
func Images(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Value, flag.DefValue = imageValue{flag.Value}, ""
	}
}

// Renamed declares the former name of a flag, which works for one version.
func Renamed(f *pflag.FlagSet, old, now string) {
	f.Var(f.Lookup(now).Value, old, "the former name of --"+now)
	f.Lookup(old).Hidden = true
	f.Lookup(old).Annotations = map[string][]string{session.Renamed: {now}}
}

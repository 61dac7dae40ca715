package flags

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images/recipe"
)

// Arguments returns flags with the values that a call gives them, in the order of the names, so that
// a proposed command, or the job of a pipeline, can repeat them. A mirror comes without credentials.
func Arguments(f *pflag.FlagSet, names ...string) (words []string) {
	for _, name := range names {
		flag := f.Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		word := "--" + name
		if flag.Value.Type() == "bool" {
			if flag.Value.String() == "true" {
				words = append(words, word)
			}
			continue
		}
		values := valuesOf(flag)
		if name == "mirror" {
			values[0] = strings.ReplaceAll(recipe.PublicMirror(values[0]), " ", ",")
		}
		for _, value := range values {
			if value != "" {
				words = append(words, word, value)
			}
		}
	}
	return words
}

// valuesOf returns the values of a flag, several of a list.
func valuesOf(flag *pflag.Flag) []string {
	list, ok := flag.Value.(interface{ GetSlice() []string })
	if ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

// BuildArguments returns the flags of a call that the builds of its images repeat. repository is
// where the images are.
func BuildArguments(f *pflag.FlagSet, repository string) []string {
	words := Arguments(f, "one-image", "with-toolchain", "no-toolchain", "with-sources", "kmm",
		"allow-incompatible", "insecure-registry", "no-fabric",
		"no-patches", "companions", "modules", "flavour", "profile", "base", "kernel-from", "modules-from",
		"mirror", "matrix", "lock")
	if repository != "" {
		words = append(words, "--repository", repository)
	}
	return append(words, Arguments(f, "ca", "registry-mirror")...)
}

// shellWord quotes a word that a shell would take apart.
func shellWord(s string) string {
	special := func(r rune) bool {
		letter := r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		digit := r >= '0' && r <= '9'
		return !letter && !digit && !strings.ContainsRune("%+,-./:=@_~", r)
	}
	if strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

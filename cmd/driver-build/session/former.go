package session

import (
	"fmt"

	"github.com/spf13/pflag"
)

// former is a flag by the name that it had in an earlier version.
type former struct {
	pflag.Value

	now  *pflag.Flag
	tell func()
}

func (v former) Set(text string) error {
	v.tell()
	v.now.Changed = true
	return v.Value.Set(text)
}

// FormerName keeps the former name of a flag working: it is not shown, and a note says what to write instead.
func (a *App) FormerName(f *pflag.FlagSet, old, now string) {
	a.former(f, &pflag.Flag{Name: old}, "--"+old, now)
}

// FormerShorthand is FormerName of a letter.
func (a *App) FormerShorthand(f *pflag.FlagSet, letter, now string) {
	a.former(f, &pflag.Flag{Name: "former-" + letter, Shorthand: letter}, "-"+letter, now)
}

func (a *App) former(f *pflag.FlagSet, old *pflag.Flag, spelling, now string) {
	flag, told := f.Lookup(now), false
	old.Hidden, old.Usage, old.DefValue = true, "former name of --"+now, flag.DefValue
	old.Value = former{flag.Value, flag, func() {
		if !told {
			fmt.Fprintf(a.Stderr, "note: write --%s in place of %s, which a later version may refuse\n", now, spelling)
		}
		told = true
	}}
	f.AddFlag(old)
}

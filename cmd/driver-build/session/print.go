package session

import (
	"encoding/json"
	"fmt"
)

// Result prints a line on stdout; lines of several goroutines do not mix.
func (a *App) Result(line string) {
	a.printing.Lock()
	defer a.printing.Unlock()
	fmt.Fprintln(a.Stdout, line)
}

// Notes prints what the user should know on stderr. It is called when the display has ended, after With.
func (a *App) Notes(notes ...string) {
	for _, n := range notes {
		fmt.Fprintln(a.Stderr, "note: "+n)
	}
}

// JSON prints v on stdout, indented.
func (a *App) JSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", b)
	return err
}

package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/distros/redact"
)

// Result prints a line on stdout; lines of several goroutines do not mix. On a terminal that shows
// progress, lines come when the display has ended, because it would write over them.
func (a *App) Result(line string) {
	a.printing.Lock()
	defer a.printing.Unlock()
	if a.hold {
		a.held = append(a.held, line)
		return
	}
	fmt.Fprintln(a.Stdout, line)
}

// progressMode is --progress. A terminal that cannot move its cursor shows lines.
func (a *App) progressMode() string {
	if a.progress == "auto" && a.Getenv("TERM") == "dumb" {
		return "plain"
	}
	return a.progress
}

// holdResults keeps results back, if they go to a terminal that the display redraws, or prints
// those that were kept back.
func (a *App) holdResults(hold bool) {
	a.printing.Lock()
	defer a.printing.Unlock()
	a.hold = hold && (a.progress == "auto" || a.progress == "tty") && IsTerminal(a.Stdout) &&
		IsTerminal(a.Stderr)
	for _, line := range a.held {
		fmt.Fprintln(a.Stdout, line)
	}
	a.held = nil
}

// IsTerminal says whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Input is stdin, whose reading ends with ctx: nothing else ends a read of a pipe whose writer
// waits.
func (a *App) Input(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	go func() { // it stays until the process ends if no content comes
		_, err := io.Copy(w, a.Stdin)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	return r
}

// Notes prints what the user should know on stderr. It is called when the display has ended, after
// Connect.
func (a *App) Notes(notes ...string) {
	for _, n := range notes {
		fmt.Fprintln(a.Stderr, visible("note: "+n))
	}
}

// Note prints a note, unless it is empty.
func (a *App) Note(note string) {
	if note != "" {
		a.Notes(note)
	}
}

// visible is a text as people see it: without secrets, and without what could be taken for another
// line.
func visible(text string) string { return escape.Text(redact.Text(text)) }

// Quiet reports whether the user wants to see neither progress nor what is only good to know.
func (a *App) Quiet() bool { return a.progress == "quiet" }

// Warnings prints what may do harm on stderr, like Notes.
func (a *App) Warnings(warnings ...string) {
	for _, w := range warnings {
		fmt.Fprintln(a.Stderr, visible("warning: "+w))
	}
}

// Table prints rows. Titles, unless they are nil, are the first row, and a column with an empty
// title is not printed. An empty cell prints as "-", except in the last column.
func (a *App) Table(titles []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	if titles != nil {
		rows = append([][]string{titles}, rows...)
	}
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if i < len(row)-1 {
				cell = cmp.Or(cell, "-")
			}
			if titles == nil || titles[i] != "" {
				cells = append(cells, escape.Line(redact.Text(cell)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// Finding is the answer to a question of the command doctor.
type Finding struct {
	Question string `json:"question"`
	State    string `json:"state"` // ok, warning (some builds cannot work) or fault
	Detail   string `json:"detail"`
	Fix      string `json:"fix,omitempty"`
}

// ListSchema is the version of the shape of all lists. It grows when the meaning of a field
// changes.
const ListSchema = 1

// List is what a command prints as JSON that shows several things.
type List[T any] struct {
	Schema int `json:"schema" yaml:"schema"`
	Items  []T `json:"items" yaml:"items"`
}

// NewList returns the list of these items; none is an empty list.
func NewList[T any](items []T) List[T] {
	return List[T]{Schema: ListSchema, Items: append([]T{}, items...)}
}

// ShowList prints items: as the list of JSON, or as a table with a row for each.
func ShowList[T any](a *App, items []T, titles []string, row func(T) []string) error {
	if a.Format == "json" {
		return a.JSON(NewList(items))
	}
	var rows [][]string
	for _, item := range items {
		rows = append(rows, row(item))
	}
	return a.Table(titles, rows)
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

package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
)

// maxErrors bounds the reported mistakes of one file: nobody reads more, and a hostile file could
// cause millions.
const maxErrors = 100

// Error is one mistake of a file.
type Error struct {
	File      string
	Line, Col int // from 1; Line 0 is the file as a whole
	Message   string
}

// Errors are all mistakes of a file, sorted by position.
type Errors []Error

// Error returns a line "file:line:col: message" for each mistake.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.File + ": " + e.Message
		if e.Line > 0 {
			lines[i] = fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Message)
		}
	}
	return strings.Join(lines, "\n")
}

// FailureKind says what the command makes of it.
func (Errors) FailureKind() failure.Kind { return failure.Usage }

// sorted returns the mistakes in the order of the file, at most maxErrors of them.
func (es Errors) sorted() Errors {
	slices.SortStableFunc(es, func(a, b Error) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
	if len(es) > maxErrors {
		last := es[maxErrors]
		es = append(
			es[:maxErrors:maxErrors],
			Error{last.File, last.Line, last.Col, "too many mistakes: mend those above first"},
		)
	}
	return es
}

// IncompatibleError says that a pair cannot work, and why.
type IncompatibleError struct {
	System, Driver, Arch string
	Rule                 string // the name of a rule: see rules.go
	Reason               string
	Overridable          bool // AllowIncompatible overrides it
}

// Error returns the pair, the rule, its reason, and how to override it where that is possible.
func (e *IncompatibleError) Error() string {
	msg := fmt.Sprintf(
		"driver %s on %s %s: %s (rule %s",
		e.Driver,
		e.System,
		e.Arch,
		e.Reason,
		e.Rule,
	)
	if e.Overridable {
		msg += "; --allow-incompatible overrides it"
	}
	return msg + ")"
}

// FailureKind says what the command makes of it.
func (*IncompatibleError) FailureKind() failure.Kind { return failure.Usage }

// suggest returns " (did you mean ubuntu16.04?)" with the most similar word, "" when none is
// similar.
func suggest(word string, among []string) string {
	near := distros.Nearest(word, among)
	return didYouMean(near[:min(len(near), 1)])
}

// didYouMean returns " (did you mean a or b?)", "" when there are no similar words.
func didYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(near, " or ") + "?)"
}

// quoted returns a word of a file for messages: control characters visible, short enough for a
// line.
func quoted(word string) string {
	const maxShown = 80
	if len(word) > maxShown {
		return fmt.Sprintf("%q...", word[:maxShown])
	}
	return fmt.Sprintf("%q", word)
}

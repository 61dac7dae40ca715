// Package escape makes text from outside, such as names of files in an image, fit for a terminal
// and a log. A name may have a line feed, which would forge a line of the program's own, or bytes
// that a terminal obeys. The package decides nothing about a text.
package escape

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns a text on one line. What is not printable is written as Go writes it in a string:
// \n, \x1b, \u202e.
func Line(text string) string { return replace(text, "") }

// Text returns a text whose line feeds and tabs stay. Each line but the first is indented, so that
// none looks like one of the program.
func Text(text string) string {
	return strings.ReplaceAll(replace(text, "\n\t"), "\n", "\n  ")
}

// replace escapes what is neither printable nor one of keep.
func replace(text, keep string) string {
	var out strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		char := text[:size]
		text = text[size:]
		damaged := r == utf8.RuneError && size == 1
		if !damaged && (unicode.IsPrint(r) || strings.ContainsRune(keep, r)) {
			out.WriteString(char)
			continue
		}
		quoted := strconv.Quote(char)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

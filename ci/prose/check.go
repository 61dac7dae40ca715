package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxComment = 110 // columns of a line that is a comment; a tab is one column
	maxCode    = 150 // columns of a line of code with a comment at its end
)

// finding is what is wrong with one line.
type finding struct {
	line  int
	text  string
	width bool // the line is too wide, as opposed to a phrase in it
}

// check returns what is wrong with a file, in the order of its lines.
func check(kind kind, content []byte) []finding {
	var found []finding
	switch kind {
	case goSource:
		cs := goComments(content)
		found = append(widths(content, cs), phrasesOf(paragraphs(cs))...)
	case hash:
		cs := hashComments(content)
		found = append(widths(content, cs), phrasesOf(paragraphs(cs))...)
	case template:
		found = phrasesOf([]block{{line: 1, text: string(content)}})
	case markdown:
		found = phrasesOf([]block{{line: 1, text: proseOf(string(content))}})
	}
	slices.SortStableFunc(found, func(a, b finding) int { return a.line - b.line })
	return found
}

// widths reports the lines with comments that are too wide.
func widths(content []byte, cs []comment) []finding {
	lines := strings.Split(string(content), "\n")
	var found []finding
	for _, c := range cs {
		limit, what := maxComment, "a comment line has %d columns; at most %d"
		if c.behind {
			limit, what = maxCode, "a line with a comment at its end has %d columns; at most %d: put the comment above it"
		}
		if n := utf8.RuneCountInString(lines[c.line-1]); n > limit && !c.directive() && !c.unbreakable() {
			found = append(found, finding{line: c.line, text: fmt.Sprintf(what, n, limit), width: true})
		}
	}
	return found
}

// block is text that belongs together, one or more lines of a file.
type block struct {
	line int // of the first line
	text string
}

// paragraphs joins comments of consecutive lines, so that a phrase is found across a line break.
func paragraphs(cs []comment) []block {
	var found []block
	last := -1
	for _, c := range cs {
		if c.directive() {
			continue
		}
		if last >= 0 && c.full && c.line == last+1 {
			found[len(found)-1].text += "\n" + c.text
		} else {
			found = append(found, block{line: c.line, text: c.text})
		}
		last = c.line
		if !c.full {
			last = -1
		}
	}
	return found
}

// phrasesOf reports the phrases of the table that are in the blocks, each with its replacement.
func phrasesOf(blocks []block) []finding {
	var found []finding
	for _, b := range blocks {
		var taken [][]int // the first phrase of the table that matches is the one that is reported
		for _, p := range phrases {
			for _, at := range p.pattern.FindAllStringIndex(b.text, -1) {
				if slices.ContainsFunc(taken, func(t []int) bool { return at[0] < t[1] && t[0] < at[1] }) {
					continue
				}
				taken = append(taken, at)
				words := strings.Join(strings.Fields(b.text[at[0]:at[1]]), " ")
				found = append(found, finding{
					line: b.line + strings.Count(b.text[:at[0]], "\n"),
					text: fmt.Sprintf("%q: write %s", words, p.instead),
				})
			}
		}
	}
	return found
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	code     = regexp.MustCompile("`[^`\n]*(\n[^`\n]+)?`")
	indented = regexp.MustCompile(`(?m)^(    |\t).*$`)
	quoted   = regexp.MustCompile(`(?s)<!-- prose: off -->.*?<!-- prose: on -->`)
)

// proseOf blanks what in a Markdown text is code, a message of a program, or between <!-- prose: off --> and
// <!-- prose: on -->. The lines stay where they are.
func proseOf(text string) string {
	for _, p := range []*regexp.Regexp{quoted, fence, indented, code} {
		text = p.ReplaceAllStringFunc(text, func(s string) string { return "." + strings.Repeat("\n", strings.Count(s, "\n")) })
	}
	return text
}

package main

import (
	"fmt"
	"go/format"
	"regexp"
	"strings"
	"unicode/utf8"
)

// short is the width under which a line break inside a paragraph is taken to be on purpose.
const short = 60

var (
	item   = regexp.MustCompile(`^\s*([-*+•]|\d{1,2}[.)])\s+`)
	marker = regexp.MustCompile(`^([-*+•]|\d{1,2}[.)]|#+|[a-z]+:\S+)$`) // would mean something at the start of a line
	table  = regexp.MustCompile(`\S(   +|\t)\S|[-=]{8}`)                // columns, and ruled lines
	apart  = regexp.MustCompile(`^ (usage|environment|example)s?:`)     // of scripts: begins a paragraph
	blanks = regexp.MustCompile(`  +`)
)

// wrapFile wraps the paragraphs of full-line comments that have a line wider than maxComment. Paragraphs
// without such a line, directives, indented code, tables and comments at the end of lines stay as they are.
func wrapFile(kind kind, src []byte) ([]byte, error) {
	var cs []comment
	var mark string
	switch kind {
	case goSource:
		cs, mark = goComments(src), "//"
	case hash:
		cs, mark = hashComments(src), "#"
	default:
		return src, nil
	}
	lines := strings.Split(string(src), "\n")
	replaced := map[int][]string{} // by the first line of a paragraph; its other lines are nil
	for _, p := range wide(lines, cs) {
		for i := range p {
			replaced[p[i].line] = nil
		}
		replaced[p[0].line] = fill(p, mark)
	}
	if len(replaced) == 0 {
		return src, nil
	}
	var out []string
	for i, l := range lines {
		if r, ok := replaced[i+1]; ok {
			out = append(out, r...)
		} else {
			out = append(out, l)
		}
	}
	text := []byte(strings.Join(out, "\n"))
	if kind != goSource {
		return text, nil
	}
	formatted, err := format.Source(text)
	if err != nil {
		return nil, fmt.Errorf("format it: %w", err)
	}
	return formatted, nil
}

// wide returns the paragraphs, or items of lists, that have a line which is too wide and may be wrapped.
func wide(lines []string, cs []comment) [][]comment {
	var found [][]comment
	var current []comment
	flush := func() {
		for _, c := range current {
			if utf8.RuneCountInString(lines[c.line-1]) > maxComment && !c.unbreakable() {
				found = append(found, current)
				break
			}
		}
		current = nil
	}
	for _, c := range cs {
		if len(current) > 0 && !continues(current, c, lines) {
			flush()
		}
		if c.full && (len(current) > 0 || starts(c)) {
			current = append(current, c)
		}
	}
	flush()
	return found
}

// starts says whether a line can be the first of something that may be wrapped.
func starts(c comment) bool {
	if c.directive() || strings.TrimSpace(c.text) == "" || table.MatchString(c.text) {
		return false
	}
	return item.MatchString(c.text) || strings.HasPrefix(c.text, " ") && !strings.HasPrefix(c.text, "  ") && !strings.HasPrefix(c.text, " # ")
}

// continues says whether a line belongs to the paragraph before it: the next line, as far indented as its
// text, after a line that was full.
func continues(p []comment, c comment, lines []string) bool {
	last := p[len(p)-1]
	if !c.full || c.line != last.line+1 || c.indent != last.indent || item.MatchString(c.text) || apart.MatchString(c.text) {
		return false
	}
	if c.directive() || strings.TrimSpace(c.text) == "" || table.MatchString(c.text) || utf8.RuneCountInString(lines[last.line-1]) < short {
		return false
	}
	want := 1
	if m := item.FindString(p[0].text); m != "" {
		want = len(m)
	}
	return len(c.text)-len(strings.TrimLeft(c.text, " \t")) == want
}

// fill writes a paragraph in lines of at most maxComment columns. It narrows them a little where the last
// line would be one word.
func fill(p []comment, mark string) []string {
	first := p[0].indent + mark
	rest := first + " "
	text := p[0].text
	if m := item.FindString(text); m != "" {
		first, rest, text = first+m, first+strings.Repeat(" ", len(m)), text[len(m):]
	} else {
		first = rest
	}
	words := wordsOf(text)
	for _, c := range p[1:] {
		words = append(words, wordsOf(c.text)...)
	}
	lines := breakAt(words, first, rest, maxComment)
	for limit := maxComment; limit >= 80 && len(lines) > 1; limit -= 5 {
		narrow := breakAt(words, first, rest, limit)
		if len(narrow) > len(lines) {
			break
		}
		if strings.Contains(strings.TrimPrefix(narrow[len(narrow)-1], rest), " ") {
			return narrow
		}
	}
	return lines
}

// breakAt puts words into lines of at most limit columns, longer only where a word is.
func breakAt(words []string, first, rest string, limit int) []string {
	var lines []string
	line := first + words[0]
	for i := 1; i < len(words); {
		n := 1 // words that stay together: a list marker or a directive must not begin a line
		for i+n < len(words) && marker.MatchString(words[i+n]) {
			n++
		}
		next := strings.Join(words[i:i+n], " ")
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(next) > limit && !marker.MatchString(words[i]) {
			lines = append(lines, line)
			line = rest + next
		} else {
			line += " " + next
		}
		i += n
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\x00", " ")
	}
	return lines
}

// wordsOf splits at single blanks: several in a row are part of what is quoted and stay.
func wordsOf(text string) []string {
	text = strings.TrimSpace(text)
	return strings.Fields(blanks.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\x00", len(s)) }))
}

package lint

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	span    = regexp.MustCompile("`+[^`]*`+")
	test    = regexp.MustCompile("`(Test[0-9A-Z][0-9A-Za-z]*)`")
	titled  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`) // a link in a heading: its text counts
	comment = regexp.MustCompile(`\s+# .*$`)
	listed  = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
)

// page is what the checks ask about a Markdown file.
type page struct {
	links   []place
	tests   []place
	code    []place // lines and spans of code
	anchors map[string]bool
}

// place is a text at a line of a page.
type place struct {
	text string
	line int
	span bool // of code, between backquotes
}

// parse reads Markdown as the pages of this project use it. A line of code that ends with a
// backslash goes on in the next one.
func parse(text string) page {
	p := page{anchors: map[string]bool{}}
	var in reader
	number := 0
	continued := false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		code, isCode := in.code(line)
		if isCode || continued {
			if !continued {
				p.code = append(p.code, place{line: number})
			}
			last := &p.code[len(p.code)-1]
			last.text, continued = strings.CutSuffix(
				strings.TrimSpace(last.text+" "+strings.TrimSpace(code)),
				`\`,
			)
			last.text = strings.TrimSpace(comment.ReplaceAllString(last.text, ""))
			continue
		}
		if in.fence {
			continue
		}
		if hashes := strings.TrimLeft(line, "#"); hashes != line && strings.HasPrefix(hashes, " ") {
			p.addHeading(hashes[1:])
		}
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(line, ""), -1) {
			p.links = append(p.links, place{text: found[1], line: number})
		}
		for _, found := range test.FindAllStringSubmatch(line, -1) {
			p.tests = append(p.tests, place{text: found[1], line: number})
		}
		for _, found := range span.FindAllString(line, -1) {
			p.code = append(p.code, place{strings.Trim(found, "`"), number, true})
		}
	}
	return p
}

// addHeading adds the anchor that GitHub and GitLab give to a heading: letters in lower case,
// digits, underscores, and a hyphen for each blank. A repeated heading gets a number.
func (p page) addHeading(text string) {
	text = titled.ReplaceAllString(strings.TrimSpace(text), "$1")
	anchor := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, text)
	name := anchor
	for i := 1; p.anchors[name]; i++ {
		name = fmt.Sprintf("%s-%d", anchor, i)
	}
	p.anchors[name] = true
}

// reader knows where in a page it is.
type reader struct {
	fence bool
	depth int // columns by which the text of the list is indented
}

// code returns a line of code without its indentation.
func (r *reader) code(line string) (string, bool) {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if strings.HasPrefix(text, "```") {
		r.fence = !r.fence
		return "", false
	}
	if r.fence {
		return text, true
	}
	if text != "" && indent < r.depth {
		r.depth = 0
	}
	if mark := listed.FindString(text); mark != "" && indent < r.depth+4 {
		r.depth = indent + len(mark)
		return "", false
	}
	return text, text != "" && indent >= r.depth+4
}

// File returns the block of code of a page that begins with a line: a file that the reader writes.
// It is "" if there is none.
func File(page, first string) string {
	_, after, found := strings.Cut(page, "\n    "+first+"\n")
	if !found {
		return ""
	}
	text := []string{first + "\n"}
	for line := range strings.Lines(after) {
		code, indented := strings.CutPrefix(line, "    ")
		if !indented {
			break
		}
		text = append(text, code)
	}
	return strings.Join(text, "")
}

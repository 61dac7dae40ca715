// Package lint checks what linters do not know of this project:
//
//   - which package may reach which, how large a package may be, and that only distros knows systems by name; depguard
//     in .golangci.yaml has which library only one place may import;
//   - references in Markdown files: relative links whose file does not exist, anchors without a heading, names of tests
//     that no file has, calls of driver-build with a command or a flag that its help does not have; it reads no
//     addresses on the web;
//   - the commands of the task pages in docs, taken from the pages: a test runs each one, or a table has the reason why
//     not, so that a new command cannot be forgotten;
//   - that a flag means the same wherever it is;
//   - the bounds on the content of images: docs/security.md has their values, and each is exceeded once.
package lint

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	link   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	span   = regexp.MustCompile("`+[^`]*`+")
	scheme = regexp.MustCompile(`^[a-z]+:`)
	test   = regexp.MustCompile("`(Test[0-9A-Z][0-9A-Za-z]*)`")
	titled = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`) // a link in a heading: its text counts
)

// Known is what pages may name, beside files.
type Known struct {
	Tests map[string]bool   // names of functions
	Helps map[string]string // help texts of driver-build by command, "bundle-create"
}

// Check returns one line for each broken reference of the files, "FILE:LINE: what: reason". Names are
// relative to root.
func Check(root fs.FS, names []string, known Known) ([]string, error) {
	pages := map[string]page{}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("read a page to check its links: %w", err)
		}
		pages[name] = parse(string(text))
	}
	var broken []string
	for _, name := range names {
		for _, l := range pages[name].links {
			if reason := follow(root, pages, name, l.target); reason != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, reason))
			}
		}
		for _, named := range pages[name].tests {
			if !known.Tests[named.target] {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: there is no such test", name, named.line, named.target))
			}
		}
		for _, code := range pages[name].code {
			for _, wrong := range checkCall(code.target, known.Helps) {
				broken = append(broken, fmt.Sprintf("%s:%d: %s", name, code.line, wrong))
			}
		}
	}
	return broken, nil
}

// follow returns why a link leads nowhere; "" if it is good or not relative.
func follow(root fs.FS, pages map[string]page, from, target string) string {
	if scheme.MatchString(target) {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
		if _, err := fs.Stat(root, to); err != nil {
			return "there is no such file"
		}
	}
	if anchor == "" {
		return ""
	}
	if p, ok := pages[to]; !ok || !p.anchors[anchor] {
		return "that page has no such heading"
	}
	return ""
}

type page struct {
	links   []place
	tests   []place
	code    []place // lines and spans of code
	anchors map[string]bool
}

type place struct {
	target string
	line   int
}

func parse(text string) page {
	p := page{anchors: map[string]bool{}}
	fenced := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced || strings.HasPrefix(line, "    ") {
			p.addCode(line, n)
		}
		if fenced {
			continue
		}
		if hashes := strings.TrimLeft(line, "#"); hashes != line && strings.HasPrefix(hashes, " ") {
			p.addHeading(hashes[1:])
		}
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(line, ""), -1) {
			p.links = append(p.links, place{found[1], n})
		}
		for _, found := range test.FindAllStringSubmatch(line, -1) {
			p.tests = append(p.tests, place{found[1], n})
		}
		for _, found := range span.FindAllString(line, -1) {
			p.code = append(p.code, place{strings.Trim(found, "`"), n})
		}
	}
	return p
}

// addCode adds a line of code, or continues the line before if that ended with a backslash.
func (p *page) addCode(line string, n int) {
	if last := len(p.code) - 1; last >= 0 && p.code[last].line == n-1 {
		if begun, ok := strings.CutSuffix(p.code[last].target, "\\"); ok {
			p.code[last] = place{begun + line, n}
			return
		}
	}
	line, _, _ = strings.Cut(line, " # ")
	p.code = append(p.code, place{line, n})
}

// addHeading adds the anchor that GitHub and GitLab give to a heading: letters in lower case, digits,
// underscores, and a hyphen for each blank. A repeated heading gets a number.
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

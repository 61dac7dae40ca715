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
//   - the bounds on the content of images, of which docs/security.md has a table: each is exceeded once.
package lint

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var scheme = regexp.MustCompile(`^[a-z]+:`)

// Known is what pages may name, beside files.
type Known struct {
	Tests map[string]bool   // names of functions
	Helps map[string]string // help texts of driver-build by command, "bundle-create"
}

// Check returns one line for each broken reference of the files, "FILE:LINE: what: reason". Names
// are relative to root.
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
			if reason := follow(root, pages, name, l.text); reason != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.text, reason))
			}
		}
		for _, named := range pages[name].tests {
			if !known.Tests[named.text] {
				broken = append(
					broken,
					fmt.Sprintf("%s:%d: %s: there is no such test", name, named.line, named.text),
				)
			}
		}
		for _, code := range pages[name].code {
			for _, wrong := range checkCall(code.text, known.Helps) {
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

package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
)

// kind is the language of a file, as far as comments are concerned.
type kind int

const (
	none     kind = iota
	goSource      // comments are found by Go's scanner
	hash          // scripts, Makefiles and YAML: full-line comments after #
	template      // Helm's templates: all of the text is looked at for phrases
	markdown      // phrases, outside of code
)

// unread are files whose words are data of a test, of another program, or written by one of them.
var unread = regexp.MustCompile(`(^|/)(testdata|\.git)/|^deploy/manifests/[^/]*\.yaml$|^deploy/chart/files/`)

// kindOf decides by the name, and for files without an extension by the first line.
func kindOf(name string) kind {
	base := path.Base(name)
	switch ext := path.Ext(name); {
	case unread.MatchString(name):
		return none
	case ext == ".go":
		return goSource
	case ext == ".md":
		return markdown
	case ext == ".tpl", base == "NOTES.txt", strings.Contains(name, "/templates/") && ext == ".yaml" && strings.Contains(name, "chart"):
		return template
	case ext == ".yaml", ext == ".yml", ext == ".sh", base == "Makefile", ext == ".mk":
		return hash
	case ext != "" && base != ".gitignore":
		return none
	}
	f, err := os.Open(name)
	if err != nil {
		return none
	}
	defer f.Close()
	start := make([]byte, 2)
	if n, _ := f.Read(start); n == 2 && string(start) == "#!" {
		return hash
	}
	return none
}

// comment is one line of a file that is a comment and nothing else, or the comment at the end of a line.
type comment struct {
	line   int    // counts from 1
	text   string // without the marker, // or #
	full   bool   // the line has nothing else, and the marker is // or #
	behind bool   // there is code before it
	indent string // before the marker
}

// goComments finds the comments of a Go file. Those between /* and */ are given line by line and cannot be
// wrapped.
func goComments(src []byte) []comment {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	lines := bytes.Split(src, []byte("\n"))
	var found []comment
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return found
		}
		if tok != token.COMMENT {
			continue
		}
		at := file.Position(pos)
		before := string(lines[at.Line-1][:at.Column-1])
		blank := strings.TrimSpace(before) == ""
		if text, ok := strings.CutPrefix(lit, "//"); ok {
			found = append(found, comment{line: at.Line, text: text, full: blank, behind: !blank, indent: before})
			continue
		}
		for i, l := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(lit, "/*"), "*/"), "\n") {
			found = append(found, comment{line: at.Line + i, text: " " + l, behind: i == 0 && !blank})
		}
	}
}

// hashComments finds the lines of a script, a Makefile or a YAML file that are comments.
func hashComments(src []byte) []comment {
	var found []comment
	for i, l := range strings.Split(string(src), "\n") {
		text := strings.TrimLeft(l, " \t")
		indent := l[:len(l)-len(text)]
		if text, ok := strings.CutPrefix(text, "#"); ok && !(i == 0 && strings.HasPrefix(text, "!")) {
			found = append(found, comment{line: i + 1, text: text, full: true, indent: indent})
		}
	}
	return found
}

// directive is what a tool reads: //go:embed, //nolint, "// Code generated", # shellcheck, # syntax=.
var directive = regexp.MustCompile(`^([a-z]+:?[a-z]| ?(shellcheck |syntax=|yaml-language-server:|nolint)| Code generated | \+build )`)

func (c comment) directive() bool { return directive.MatchString(c.text) }

// unbreakable says that the text has one word, an address for example, which no wrapping makes shorter.
func (c comment) unbreakable() bool { return len(strings.Fields(c.text)) <= 1 }

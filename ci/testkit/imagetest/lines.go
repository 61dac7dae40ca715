package imagetest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// described is a package as lines describe it.
type described struct {
	name, version string
	fields        []field
	files         []repotest.File
}

// field is a line "Depends: libc6".
type field struct{ name, value string }

// deb returns the package for an architecture.
func (d described) deb(arch string) repotest.Deb {
	var b strings.Builder
	fmt.Fprintf(&b, "Package: %s\nVersion: %s\nArchitecture: %s\n", d.name, d.version, arch)
	p := repotest.Deb{Files: d.files}
	for _, f := range d.fields {
		if f.name == "Component" {
			p.Component = f.value
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", f.name, f.value)
	}
	p.Control = fmt.Sprintf("%sDescription: %s for tests", b.String(), d.name)
	return p
}

// rpm returns the package. Fields are as in a spec file; one relation a line.
func (d described) rpm() repotest.RPM {
	p := repotest.RPM{Name: d.name, EVR: d.version, Files: d.files}
	for _, f := range d.fields {
		switch f.name {
		case "Arch":
			p.Arch = f.value
		case "Provides":
			p.Provides = append(p.Provides, f.value)
		case "Requires":
			p.Requires = append(p.Requires, f.value)
		case "Obsoletes":
			p.Obsoletes = append(p.Obsoletes, f.value)
		}
	}
	return p
}

var (
	packageLine = regexp.MustCompile(`^package (\S+) (\S+)$`)
	fieldLine   = regexp.MustCompile(`^([A-Z][A-Za-z-]+): (.+)$`)
	fileLine    = regexp.MustCompile(`^(\S+) (=|\*|->|<|elf|static|x?lib)(?: (.*))?$`)
)

// packagesOf reads packages: "package NAME VERSION", then fields and files of it, each on a line of
// its own. values are names, which begin with "$", and what replaces them.
func packagesOf(text, arch string, values ...string) (all []described) {
	for line := range strings.Lines(strings.NewReplacer(values...).Replace(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if m := packageLine.FindStringSubmatch(line); m != nil {
			all = append(all, described{name: m[1], version: m[2]})
			continue
		}
		last := &all[len(all)-1]
		if m := fieldLine.FindStringSubmatch(line); m != nil {
			last.fields = append(last.fields, field{m[1], m[2]})
			continue
		}
		last.files = append(last.files, fileOf(line, arch))
	}
	return all
}

// filesOf reads files, one a line.
func filesOf(text, arch string, values ...string) []repotest.File {
	return packagesOf("package files 1\n"+text, arch, values...)[0].files
}

// copied is the type of a file that is a copy of the one at Link.
const copied = '<'

// fileOf reads a file: "PATH = TEXT", "PATH * TEXT" for one that can be executed, "PATH -> TARGET",
// "PATH/" for a folder, "PATH elf [NEEDED...]" for a program, "PATH static NOTE" for a program
// without a loader, "PATH lib SONAME [NEEDED...]" for a library, or "PATH xlib" for one with mode
// 0755. note=NOTE makes two files differ. A text gets a newline, unless it ends with a
// backslash; \n is one too.
func fileOf(line, arch string) repotest.File {
	m := fileLine.FindStringSubmatch(line)
	switch {
	case m == nil && strings.HasSuffix(line, "/"):
		return repotest.File{Name: line}
	case m == nil:
		panic("imagetest: no file is described by " + line) //nolint:forbidigo // the lines are constants
	}
	f := repotest.File{Name: m[1]}
	if slices.Contains([]string{"*", "static", "elf", "xlib"}, m[2]) {
		f.Mode = 0o755
	}
	rest := m[3]
	note, words := noteOf(rest)
	switch m[2] {
	case "=":
		text, cut := strings.CutSuffix(strings.ReplaceAll(rest, `\n`, "\n"), `\`)
		f.Body = text
		if !cut {
			f.Body += "\n"
		}
	case "*":
		f.Body = rest
	case "->":
		f.Link = rest
	case "<":
		f.Type = copied
		f.Link = rest
	case "static":
		f.Body = string(ELF{Arch: arch, Static: true, Note: rest}.Bytes())
	case "elf":
		needed := append(words, "libc.so.6")
		note = path.Base(f.Name) + note
		f.Body = string(ELF{Arch: arch, Program: true, Needed: needed, Note: note}.Bytes())
	default:
		library := ELF{Arch: arch, Soname: words[0], Needed: words[1:], Note: note}
		f.Body = string(library.Bytes())
	}
	return f
}

// noteOf takes note=NOTE out of words.
func noteOf(text string) (note string, words []string) {
	for word := range strings.FieldsSeq(text) {
		value, found := strings.CutPrefix(word, "note=")
		if found {
			note = value
			continue
		}
		words = append(words, word)
	}
	return note, words
}

// template is the description of a package by the beginning of its name.
type template struct{ prefix, text string }

// templateFor returns the first description that fits a name.
func templateFor(all []template, name string) string {
	for _, t := range all {
		if strings.HasPrefix(name, t.prefix) {
			return t.text
		}
	}
	return ""
}

package dpkg

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
)

// Bounds of control data. The largest real paragraph, in the kernel's list of built binaries, is
// under 1 MiB.
const (
	maxParagraph = 4 << 20 // bytes
	maxFields    = 512     // per paragraph; the largest real ones have about 60
)

// ErrFormat says that data violates its format.
var ErrFormat = failure.New(failure.Content, "malformed")

// field is one field of a paragraph. The value has its continuation lines; the first line has no
// leading blanks.
type field struct{ name, value string }

// Paragraph is an ordered list of fields, as in control files, Packages indexes and dpkg's status
// database. The zero value is empty. Methods return changed copies and never change shared data.
type Paragraph struct {
	raw    string // all lines, each with its newline, without the blank line after them
	fields []field
}

// Get returns the value of a field; the case of name does not matter. It is "" when the field is
// missing. Continuation lines follow after newlines, each with its leading blank.
func (p Paragraph) Get(name string) string {
	v, _ := p.Lookup(name)
	return v
}

// Lookup is Get with a second result, which distinguishes an empty field from a missing one.
func (p Paragraph) Lookup(name string) (string, bool) {
	i := p.index(name)
	if i < 0 {
		return "", false
	}
	return p.fields[i].value, true
}

// index returns the place of a field, -1 if it is missing. Of a field that occurs twice the last
// one counts, as in apt.
func (p Paragraph) index(name string) int {
	for i, f := range slices.Backward(p.fields) {
		if len(f.name) == len(name) && strings.EqualFold(f.name, name) {
			return i
		}
	}
	return -1
}

// Set returns the paragraph with a field replaced, or added at the end.
func (p Paragraph) Set(name, value string) Paragraph {
	fields := slices.Clone(p.fields)
	i := p.index(name)
	if i < 0 {
		return render(append(fields, field{name, value}))
	}
	fields[i].value = value
	return render(fields)
}

// Without returns the paragraph without the named fields.
func (p Paragraph) Without(names ...string) Paragraph {
	return render(slices.DeleteFunc(slices.Clone(p.fields), func(f field) bool {
		return slices.ContainsFunc(
			names,
			func(n string) bool { return strings.EqualFold(f.name, n) },
		)
	}))
}

// String returns the text of the paragraph: every line with a newline, no blank line after the
// last.
func (p Paragraph) String() string { return p.raw }

// Empty reports whether the paragraph has no field.
func (p Paragraph) Empty() bool { return len(p.fields) == 0 }

func render(fields []field) Paragraph {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f.name)
		b.WriteByte(':')
		if f.value != "" && f.value[0] != '\n' {
			b.WriteByte(' ')
		}
		b.WriteString(f.value)
		b.WriteByte('\n')
	}
	return Paragraph{raw: b.String(), fields: fields}
}

// ReadParagraphs yields the paragraphs of control data one by one, read as apt reads them: only an
// empty line ends a paragraph, continuation lines before its first field do not count, and a line
// without a colon is a part of the name of the field that follows, which nothing asks for then.
// Lines that begin with # are comments. At the first mistake it yields an ErrFormat that names the
// line, or the reader's error, and stops. The paragraphs do not depend on the reader afterwards.
func ReadParagraphs(r io.Reader) iter.Seq2[Paragraph, error] {
	return func(yield func(Paragraph, error) bool) {
		s := scanner{in: bufio.NewReaderSize(r, 256<<10)}
		for {
			text, err := s.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Paragraph{}, err)
				}
				return
			}
			p, err := parse(text, s.line)
			if err != nil {
				yield(Paragraph{}, err)
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// ParseParagraph parses control data that has exactly one paragraph.
func ParseParagraph(data []byte) (Paragraph, error) {
	var out Paragraph
	for p, err := range ReadParagraphs(bytes.NewReader(data)) {
		if err != nil {
			return Paragraph{}, err
		}
		if !out.Empty() {
			return Paragraph{}, malformed("control data: more than one paragraph")
		}
		out = p
	}
	if out.Empty() {
		return Paragraph{}, malformed("control data: no paragraph")
	}
	return out, nil
}

// scanner splits input into paragraphs.
type scanner struct {
	in   *bufio.Reader
	buf  []byte
	line int // line where the paragraph begins, from 1
	read int // number of lines read
}

// next returns the lines of the next paragraph, without comments (lines that begin with #).
func (s *scanner) next() (string, error) {
	s.buf = s.buf[:0]
	for {
		start := len(s.buf)
		if err := s.readLine(); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		line := s.buf[start:]
		if len(line) == 0 { // end of input
			if start == 0 {
				return "", io.EOF
			}
			return string(s.buf), nil
		}
		s.read++
		if line[len(line)-1] != '\n' {
			s.buf = append(s.buf, '\n')
			line = s.buf[start:]
		}
		empty := len(bytes.TrimLeft(line, "\r\n")) == 0
		switch {
		case empty && start > 0:
			return string(s.buf[:start]), nil
		case empty, line[0] == '#', start == 0 && line[0] <= ' ':
			s.buf = s.buf[:start]
		case start == 0:
			s.line = s.read
		}
	}
}

// readLine appends one line to buf, within the bounds.
func (s *scanner) readLine() error {
	for {
		piece, err := s.in.ReadSlice('\n')
		s.buf = append(s.buf, piece...)
		if len(s.buf) > maxParagraph {
			return malformed(
				"control data line %d: paragraph of more than %d bytes",
				s.read+1,
				maxParagraph,
			)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// parse splits a paragraph's text, which the fields then share.
func parse(text string, line int) (Paragraph, error) {
	p := Paragraph{raw: text, fields: make([]field, 0, strings.Count(text, "\n"))}
	for text != "" {
		name, value, found := strings.Cut(text, ":")
		if !found {
			line += strings.Count(p.raw[:len(p.raw)-len(text)], "\n")
			return Paragraph{}, malformed(
				"control data line %d: want \"Field: value\", have %.60q",
				line,
				text,
			)
		}
		if len(p.fields) == maxFields {
			return Paragraph{}, malformed(
				"control data line %d: a paragraph of more than %d fields",
				line,
				maxFields,
			)
		}
		end := fieldEnd(value)
		text = value[min(end+1, len(value)):]
		first, rest, more := strings.Cut(value[:end], "\n")
		value = strings.Trim(first, " \t\r")
		if more {
			value += "\n" + strings.TrimRight(rest, "\r\n")
		}
		p.fields = append(p.fields, field{strings.TrimRight(name, " \t\r\n"), value})
	}
	return p, nil
}

// fieldEnd returns the index of the newline that ends a value with its continuation lines.
func fieldEnd(text string) int {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
		if at >= len(text) || text[at] > ' ' {
			return at - 1
		}
	}
}

// check returns an ErrFormat for a paragraph that apt reads and that dpkg refuses, in a package and
// in its database.
func (p Paragraph) check() error {
	blank := func(line string) bool { return strings.TrimSpace(line) == "" }
	for i, f := range p.fields {
		continued := strings.Split(f.value, "\n")[1:]
		if !validName(f.name) || p.index(f.name) != i || slices.ContainsFunc(continued, blank) {
			return malformed("control data: dpkg takes no field %.60q: %.60q", f.name, f.value)
		}
	}
	return nil
}

// validName follows policy 5.1: printable ASCII except space and colon, not beginning with # or -.
func validName(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '#' &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

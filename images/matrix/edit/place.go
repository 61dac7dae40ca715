package edit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// driverList is a file as lines, with the entries of its list of drivers.
type driverList struct {
	lines []string     // each with its line end
	items []*yaml.Node // in the order of the file
	end   int          // line of the key after the list; 0: the list goes to the end of the file
}

// itemShape matches the first line of an entry: the dash and the blanks before and after it.
var itemShape = regexp.MustCompile(`^( *)-( +)[^ ]`)

// style says how the list of drivers is written.
type style struct {
	dash  string // text before the dash
	gap   string // text between the dash and the first key
	inner string // additional indentation of nested keys
	end   string // line end: "\n" or "\r\n"
	blank bool   // entries are separated by empty lines
}

// style returns the style of the existing entries.
func (p driverList) style() (style, error) {
	var s style
	if last := p.items[len(p.items)-1].Line; last > len(p.lines) || p.end > len(p.lines) || p.end > 0 && p.end <= last {
		// Keys on one line, or line ends that only YAML accepts.
		return s, errors.New("it is not written in lines, one key on each")
	}
	for n, item := range p.items {
		line := p.lines[item.Line-1]
		m := itemShape.FindStringSubmatch(line)
		if item.Style&yaml.FlowStyle != 0 || m == nil || len(m[1])+1+len(m[2]) != item.Column-1 {
			return s, fmt.Errorf("line %d: a driver that is not written as a list entry of lines (\"- version: ...\")", item.Line)
		}
		if n == 0 {
			s.dash, s.gap = m[1], m[2]
		} else if s.dash != m[1] {
			return s, fmt.Errorf("line %d: the entry is indented otherwise than the one before it", item.Line)
		}
		if head := p.entryStart(s, item); n > 0 && head > 1 && strings.TrimSpace(p.lines[head-2]) == "" {
			s.blank = true
		}
		if strings.HasSuffix(line, "\r\n") {
			s.end = "\r\n"
		}
	}
	if s.end == "" {
		s.end = "\n"
	}
	if len(p.items) == 1 {
		s.blank = true
	}
	if s.inner = p.inner(); len(s.inner) < 1 {
		s.inner = "  "
	}
	return s, nil
}

// inner returns the indentation of the first mapping inside of an entry, "" when there is none.
func (p driverList) inner() string {
	for _, item := range p.items {
		for i := 0; i+1 < len(item.Content); i += 2 {
			if v := item.Content[i+1]; v.Kind == yaml.MappingNode && v.Style&yaml.FlowStyle == 0 && v.Column > item.Column {
				return strings.Repeat(" ", v.Column-item.Column)
			}
		}
	}
	return ""
}

// entryStart returns the line (from 1) where an entry begins: that of its dash, or of the comment directly
// above it.
func (p driverList) entryStart(s style, item *yaml.Node) int {
	line := item.Line
	for line > 1 && comment(s, p.lines[line-2]) {
		line--
	}
	return line
}

// comment reports whether a line is a comment of the list. A line deeper than the dashes may be text that
// only looks like a comment.
func comment(s style, line string) bool {
	text := strings.TrimLeft(line, " ")
	return strings.HasPrefix(text, "#") && len(line)-len(text) <= len(s.dash)
}

// insertionLine returns the number of lines before the new entry: it follows the nearest older one, or comes
// before the first.
func (p driverList) insertionLine(s style, version string) int {
	before := -1
	for n, item := range p.items {
		v := child(item, "version").Value
		if older(v, version) && (before < 0 || !older(v, child(p.items[before], "version").Value)) {
			before = n
		}
	}
	if before+1 < len(p.items) {
		return p.entryStart(s, p.items[before+1]) - 1
	}
	at := len(p.lines)
	if p.end > 0 {
		at = p.end - 1
	}
	for at > 0 && (comment(s, p.lines[at-1]) || strings.TrimSpace(p.lines[at-1]) == "") {
		at--
	}
	return at
}

// insert puts lines after the first at lines, with the empty lines that the style requires.
func (p driverList) insert(s style, at int, entry []string) *Change {
	front, back := p.lines[:at], p.lines[at:]
	var text strings.Builder
	text.WriteString(strings.Join(front, ""))
	if at > 0 && !strings.HasSuffix(front[at-1], "\n") { // the last line has no line end
		text.WriteString(s.end)
	}
	added := slices.Clone(entry)
	first := p.entryStart(s, p.items[0]) - 1
	if s.blank && at > first && strings.TrimSpace(front[at-1]) != "" {
		added = append([]string{""}, added...)
	}
	if s.blank && len(back) > 0 && at < p.items[len(p.items)-1].Line {
		added = append(added, "")
	}
	for _, l := range added {
		text.WriteString(l + s.end)
	}
	text.WriteString(strings.Join(back, ""))
	return &Change{
		Text: []byte(text.String()), Line: at + 1, Added: added,
		Before: withoutLineEnds(front[max(0, at-3):]), After: withoutLineEnds(back[:min(3, len(back))]),
	}
}

// withoutLineEnds returns lines without their ends.
func withoutLineEnds(lines []string) []string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = strings.TrimRight(l, "\r\n")
	}
	return all
}

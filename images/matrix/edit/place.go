package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/images/matrix"
)

// list is a file as lines, with the entries of one of its lists.
type list struct {
	lines []string     // each with its line end
	items []*yaml.Node // in the order of the file
	end   int          // number of the lines that the list ends with or before

	dash string // text before the dash of an entry
	head string // dash and gap: what the first line of an entry begins with
}

// read looks for the entries of a key and for the key behind them, in a text that Parse has read.
func read(text []byte, key string) (*list, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, err // not reached
	}
	root := doc.Content[0]
	l := &list{lines: slices.Collect(strings.Lines(string(text)))}
	l.end = len(l.lines)
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			l.items = root.Content[i+1].Content
		} else if l.items != nil {
			l.end = root.Content[i].Line - 1
			break
		}
	}
	return l, l.style()
}

// style reads how entries begin. All must begin alike, each on lines of its own.
func (l *list) style() error {
	for n, item := range l.items {
		if item.Line > l.end {
			return errors.New("it is not written in lines, one key on each")
		}
		line := l.lines[item.Line-1]
		head := line[:min(item.Column-1, len(line))]
		if item.Style&yaml.FlowStyle != 0 || strings.Trim(head, " ") != "-" || !strings.HasSuffix(head, " ") || !strings.HasSuffix(line, "\n") {
			return fmt.Errorf("line %d: an entry that is not written in lines of its own", item.Line)
		}
		if n == 0 {
			l.head, l.dash = head, head[:strings.Index(head, "-")]
		} else if l.head != head {
			return fmt.Errorf("line %d: the entry is indented otherwise than the one before it", item.Line)
		}
	}
	return nil
}

// place returns the number of lines before the new entry: it follows the nearest older one, or comes before
// the first. Comments belong to what follows them.
func (l *list) place(version string) int {
	before := -1
	value := func(n int) string { return child(l.items[n], "version").Value }
	for n := range l.items {
		if matrix.CompareVersions(value(n), version) < 0 && (before < 0 || matrix.CompareVersions(value(n), value(before)) >= 0) {
			before = n
		}
	}
	return l.start(before + 1)
}

// start returns the number of lines before an entry and the comment above it, or before what follows the last.
func (l *list) start(n int) int {
	at, last := l.end, n == len(l.items)
	if !last {
		at = l.items[n].Line - 1
	}
	for at > 0 && (l.comment(l.lines[at-1]) || last && strings.TrimSpace(l.lines[at-1]) == "") {
		at--
	}
	return at
}

// keep returns the file with the entries whose key has one of some values, and the comments above them.
func (l *list) keep(key string, values []string) []byte {
	text := strings.Join(l.lines[:l.start(0)], "")
	for n, item := range l.items {
		if slices.Contains(values, child(item, key).Value) {
			text += strings.Join(l.lines[l.start(n):l.start(n+1)], "")
		}
	}
	rest := strings.Join(l.lines[l.start(len(l.items)):], "")
	if strings.HasPrefix(rest, "\n") {
		text = strings.TrimRight(text, "\n") + "\n"
	}
	return []byte(text + rest)
}

// comment reports whether a line is a comment of the list. A line deeper than the dashes may be text that
// only looks like a comment.
func (l *list) comment(line string) bool {
	text := strings.TrimLeft(line, " ")
	return strings.HasPrefix(text, "#") && len(line)-len(text) <= len(l.dash)
}

// insert puts the entry at its place, with an empty line on the side where another entry is.
func (l *list) insert(d matrix.Driver, comment []string) *Change {
	at := l.place(d.Version)
	added := l.entry(d, comment)
	front := strings.Join(l.lines[:at], "")
	if at > 0 && !strings.HasSuffix(front, "\n") { // the last line has no line end
		front += "\n"
	}
	switch {
	case at < l.items[len(l.items)-1].Line:
		added = append(added, "")
	case at > 0 && strings.TrimSpace(l.lines[at-1]) != "":
		added = append([]string{""}, added...)
	}
	text := front + strings.Join(added, "\n") + "\n" + strings.Join(l.lines[at:], "")
	return &Change{Text: []byte(text), Line: at + 1, Added: added}
}

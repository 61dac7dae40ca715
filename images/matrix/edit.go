package matrix

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	goversion "github.com/hashicorp/go-version"
	"go.yaml.in/yaml/v4"
)

// ErrLayout says that a matrix is written in a way that AddDriver does not edit: the entry must be added by hand.
var ErrLayout = errors.New("cannot be edited by program")

// DuplicateError says that a matrix has a driver already.
type DuplicateError struct {
	File    string
	Version string // that was to be added
	Have    string // as the file has it: the same release may be written in two ways
	Line    int    // of that entry
}

// Error names both and the place.
func (e *DuplicateError) Error() string {
	same := ""
	if e.Have != e.Version {
		same = " as " + e.Have
	}
	return fmt.Sprintf("%s:%d: driver %s is there already%s", e.File, e.Line, e.Version, same)
}

// Edit is a matrix with one more driver.
type Edit struct {
	Text   []byte // the whole file
	Line   int    // where the insertion begins, from 1
	Added  []string
	Before []string // up to three lines in front of the insertion, for people
	After  []string // up to three lines behind it
}

// AddDriver inserts a driver into the text of a matrix, behind the nearest older one. Every byte that is there stays: comments,
// order and style. The entry follows the style of its neighbours (indentation, empty lines between entries, line ends); comment
// holds lines to put above it. name is used in messages only.
//
// A text that has mistakes is Errors, a driver that is there already a *DuplicateError, a text whose list of drivers cannot be
// edited line by line (flow style) ErrLayout. The result is read again before it is returned: it holds the new driver and what was
// there before, or the answer is ErrLayout.
func AddDriver(name string, text []byte, d Driver, comment []string) (*Edit, error) {
	before, err := Parse(name, text)
	if err != nil {
		return nil, err
	}
	root := (&decoder{file: name}).load(text)
	items := child(root, "drivers").Content
	for _, item := range items {
		if v := child(item, "version"); canonical(v.Value) == canonical(d.Version) {
			return nil, &DuplicateError{File: name, Version: d.Version, Have: v.Value, Line: v.Line}
		}
	}
	p := page{lines: splitLines(text), items: items, end: keyAfter(root, "drivers")}
	s, err := p.style()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err)
	}
	at := p.place(s, d.Version)
	e := p.insert(s, at, s.entry(d, comment))
	after, err := Parse(name, e.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: with the new entry it would have mistakes: %w", name, ErrLayout, err)
	}
	if err := onlyAdded(before, after, d); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err)
	}
	return e, nil
}

// onlyAdded says how after differs from before besides the driver that was added.
func onlyAdded(before, after *Matrix, d Driver) error {
	n := slices.IndexFunc(after.Drivers, func(x Driver) bool { return x.Version == d.Version })
	if n < 0 {
		return errors.New("the new entry would not be one of the drivers")
	}
	got := after.Drivers[n]
	if !reflect.DeepEqual(got.Archives, d.Archives) || got.Kernel != d.Kernel || !slices.Equal(got.Flavours, d.Flavours) || got.Debian != nil {
		return fmt.Errorf("the new entry would read as %+v", got)
	}
	rest := *after
	rest.Drivers = slices.Delete(slices.Clone(after.Drivers), n, n+1)
	if !reflect.DeepEqual(&rest, before) {
		return errors.New("another entry would change with it")
	}
	return nil
}

// child returns the value of a key in a mapping, an empty node when there is none. The tree has been checked by Parse.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return new(yaml.Node)
}

// keyAfter is the line of the key that follows another one, 0 when that is the last.
func keyAfter(n *yaml.Node, name string) int {
	for i := 0; i+2 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+2].Line
		}
	}
	return 0
}

// splitLines cuts a text after each line end, so that the pieces joined are the text.
func splitLines(text []byte) []string { return slices.Collect(strings.Lines(string(text))) }

// older says whether version a is below b.
func older(a, b string) bool {
	x, errX := goversion.NewVersion(a)
	y, errY := goversion.NewVersion(b)
	return errX == nil && errY == nil && x.LessThan(y)
}

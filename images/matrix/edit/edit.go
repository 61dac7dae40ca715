// Package edit changes the text of a matrix as a careful person would: comments, order and style stay. It
// reads with package matrix and does no I/O.
package edit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	goversion "github.com/hashicorp/go-version"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/images/matrix"
)

// ErrLayout says that the text of a matrix has a form that AddDriver does not edit: a person must add the
// entry.
var ErrLayout = errors.New("cannot be edited by program")

// DuplicateError says that a matrix already has a driver.
type DuplicateError struct {
	File    string
	Version string // the driver to be added
	Have    string // the same release in the file, which can be written in another way
	Line    int    // line of that entry
}

// Error returns both versions and the line.
func (e *DuplicateError) Error() string {
	same := ""
	if e.Have != e.Version {
		same = " as " + e.Have
	}
	return fmt.Sprintf("%s:%d: driver %s is there already%s", e.File, e.Line, e.Version, same)
}

// Change is a matrix with one more driver.
type Change struct {
	Text   []byte // the whole file
	Line   int    // line where the insertion begins, from 1
	Added  []string
	Before []string // up to three lines before the insertion, for people
	After  []string // up to three lines after it
}

// Diff shows the insertion as diff -u does.
func (e *Change) Diff(file string) string {
	var b strings.Builder
	first := e.Line - len(e.Before)
	old := len(e.Before) + len(e.After)
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", file, file, first, old, first, old+len(e.Added))
	for _, part := range []struct {
		sign  string
		lines []string
	}{{" ", e.Before}, {"+", e.Added}, {" ", e.After}} {
		for _, line := range part.lines {
			b.WriteString(part.sign + line + "\n")
		}
	}
	return b.String()
}

// AddDriver inserts a driver into the text of a matrix, after the nearest older one. Every existing byte
// stays: comments, order and style. The entry follows the style of its neighbours (indentation, empty lines
// between entries, line ends). comment has the lines to put above it. name is only for messages.
//
// Errors: matrix.Errors for a text with mistakes, *DuplicateError for a driver that exists, ErrLayout for a
// list of drivers that cannot be edited line by line (flow style). AddDriver parses the result before it
// returns it: if that has anything else than the old content and the new driver, the error is ErrLayout.
func AddDriver(name string, text []byte, d matrix.Driver, comment []string) (*Change, error) {
	before, err := matrix.Parse(name, text)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err) // not reached: Parse has read it
	}
	root := doc.Content[0]
	items := child(root, "drivers").Content
	for _, item := range items {
		if v := child(item, "version"); sameRelease(v.Value, d.Version) {
			return nil, &DuplicateError{File: name, Version: d.Version, Have: v.Value, Line: v.Line}
		}
	}
	p := driverList{lines: splitLines(text), items: items, end: keyAfter(root, "drivers")}
	s, err := p.style()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err)
	}
	at := p.insertionLine(s, d.Version)
	e := p.insert(s, at, s.entry(d, comment))
	after, err := matrix.Parse(name, e.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: with the new entry it would have mistakes: %w", name, ErrLayout, err)
	}
	if err := onlyAdded(before, after, d); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err)
	}
	return e, nil
}

// onlyAdded returns an error if after differs from before in more than the added driver.
func onlyAdded(before, after *matrix.Matrix, d matrix.Driver) error {
	n := slices.IndexFunc(after.Drivers, func(x matrix.Driver) bool { return x.Version == d.Version })
	if n < 0 {
		return errors.New("the new entry would not be one of the drivers")
	}
	got := after.Drivers[n]
	if !reflect.DeepEqual(got.Archives, d.Archives) || !reflect.DeepEqual(got.Kernel, d.Kernel) ||
		len(got.Components)+len(d.Components) > 0 && !reflect.DeepEqual(got.Components, d.Components) || !slices.Equal(got.Flavours, d.Flavours) || got.CUDA != d.CUDA || got.Debian != nil {
		return fmt.Errorf("the new entry would read as %+v", got)
	}
	rest := *after
	rest.Drivers = slices.Delete(slices.Clone(after.Drivers), n, n+1)
	if !reflect.DeepEqual(&rest, before) {
		return errors.New("another entry would change with it")
	}
	return nil
}

// child returns the value of a key in a mapping, or an empty node when there is none. Parse has checked the
// tree.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return new(yaml.Node)
}

// keyAfter returns the line of the key that follows another one, 0 when that is the last.
func keyAfter(n *yaml.Node, name string) int {
	for i := 0; i+2 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+2].Line
		}
	}
	return 0
}

// splitLines splits a text after each line end. The joined pieces equal the text.
func splitLines(text []byte) []string { return slices.Collect(strings.Lines(string(text))) }

// sameRelease reports whether two versions are of one release: 418.87.1 and 418.87.01.
func sameRelease(a, b string) bool {
	x, errX := goversion.NewVersion(a)
	y, errY := goversion.NewVersion(b)
	return errX == nil && errY == nil && x.Equal(y)
}

// older reports whether version a is below b.
func older(a, b string) bool {
	x, errX := goversion.NewVersion(a)
	y, errY := goversion.NewVersion(b)
	return errX == nil && errY == nil && x.LessThan(y)
}

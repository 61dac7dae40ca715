// Package edit changes the text of a matrix as a careful person would: it adds a driver, or cuts away systems
// and drivers, and no other byte changes. It reads with package matrix and does no I/O.
package edit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
	Text  []byte // the whole file
	Line  int    // line where the insertion begins, from 1
	Added []string
}

// Diff shows the insertion as diff -U0 does.
func (e *Change) Diff(file string) string {
	return fmt.Sprintf("--- %s\n+++ %s\n@@ -%d,0 +%d,%d @@\n+%s\n", file, file, e.Line-1, e.Line, len(e.Added), strings.Join(e.Added, "\n+"))
}

// AddDriver inserts a driver into the text of a matrix, after the nearest older one, at the indentation of its
// neighbours. comment has the lines to put above it. name is only for messages.
//
// Errors: matrix.Errors for a text with mistakes, *DuplicateError for a driver that exists, ErrLayout for a
// list of drivers that cannot be edited line by line (flow style). AddDriver parses the result before it
// returns it: if that has anything else than the old content and the new driver, the error is ErrLayout.
func AddDriver(name string, text []byte, d matrix.Driver, comment []string) (*Change, error) {
	before, err := matrix.Parse(name, text)
	if err != nil {
		return nil, err
	}
	layout := func(err error) (*Change, error) { return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err) }
	l, err := read(text, "drivers")
	if err != nil {
		return layout(err)
	}
	for _, item := range l.items {
		if v := child(item, "version"); matrix.CompareVersions(v.Value, d.Version) == 0 {
			return nil, &DuplicateError{File: name, Version: d.Version, Have: v.Value, Line: v.Line}
		}
	}
	change := l.insert(d, comment)
	after, err := matrix.Parse(name, change.Text)
	if err != nil {
		return layout(fmt.Errorf("with the new entry it would have mistakes: %w", err))
	}
	if err := onlyAdded(before, after, d); err != nil {
		return layout(err)
	}
	return change, nil
}

// Keep returns the text of a matrix with some of its systems and drivers. What stays, stays as it is written.
// The errors are those of AddDriver; a row of exclude about drivers that all go is a mistake.
func Keep(name string, text []byte, systems, drivers []string) ([]byte, error) {
	_, err := matrix.Parse(name, text)
	for _, of := range []struct {
		list, id string
		keep     []string
	}{{"systems", "id", systems}, {"drivers", "version", drivers}} {
		if err != nil {
			return nil, err
		}
		l, err := read(text, of.list)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, ErrLayout, err)
		}
		text = l.keep(of.id, of.keep)
	}
	_, err = matrix.Parse(name, text)
	return text, err
}

// onlyAdded returns an error if after differs from before in more than the added driver.
func onlyAdded(before, after *matrix.Matrix, d matrix.Driver) error {
	n := slices.IndexFunc(after.Drivers, func(x matrix.Driver) bool { return x.Version == d.Version })
	if n < 0 {
		return errors.New("the new entry would not be one of the drivers")
	}
	got := after.Drivers[n]
	kernel := got.Kernel
	kernel.Broken = d.Kernel.Broken // those of the file's interfaces
	if !reflect.DeepEqual(got.Archives, d.Archives) || !reflect.DeepEqual(kernel, d.Kernel) || !slices.Equal(got.Flavours, d.Flavours) ||
		len(got.Components)+len(d.Components) > 0 && !reflect.DeepEqual(got.Components, d.Components) || got.CUDA != d.CUDA || got.Debian != nil {
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
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return new(yaml.Node)
}

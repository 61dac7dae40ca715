package rootfs

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Lstat returns the entry of a clean path, without following a link in its last part. Directories
// without an entry that contain something count as entries with mode 0755.
func (t *Tree) Lstat(p string) (*Entry, bool) {
	if p == "." {
		return &Entry{Path: ".", Kind: Dir, Mode: 0o755}, true
	}
	for at := t; at != nil; at = at.lower {
		if e, ok := at.entries[p]; ok {
			return e, e.Kind != Deleted
		}
		if len(at.names[p]) > 0 {
			return &Entry{Path: p, Kind: Dir, Mode: 0o755}, true
		}
		if at.covered(p) {
			return nil, false
		}
	}
	return nil, false
}

// covered reports whether this tree deletes a parent of p or replaces it with something that is not
// a directory.
func (t *Tree) covered(p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if e, ok := t.entries[dir]; ok && e.Kind != Dir {
			return true
		}
	}
	return false
}

// Resolve follows every link of a clean path, including the last part, inside the tree: absolute
// targets start at its root and ".." stops there. Missing parts stay unchanged. A loop is an error.
func (t *Tree) Resolve(p string) (string, error) {
	done := "."
	rest := p
	links := 0
	for rest != "" && rest != "." {
		part, after, _ := strings.Cut(rest, "/")
		rest = after
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		e, ok := t.Lstat(next)
		if !ok && !strings.Contains(rest, "..") {
			return path.Join(next, rest), nil // nothing is below what is missing
		}
		if !ok || e.Kind != Link {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf(
				"%w: %.100q: too many links, more than %d",
				ErrUnsafePath,
				p,
				maxLinks,
			)
		}
		if strings.HasPrefix(e.Target, "/") {
			done = "."
		}
		rest = strings.TrimLeft(e.Target, "/") + "/" + rest
	}
	return done, nil
}

// Stat follows every link of name and returns the entry at its end.
func (t *Tree) Stat(name string) (*Entry, error) {
	p, err := Clean(strings.TrimPrefix(name, "/"))
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	p, err = t.Resolve(p)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	e, ok := t.Lstat(p)
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return e, nil
}

// Exists reports whether name, followed through its links, is a file or a folder.
func (t *Tree) Exists(name string) bool {
	e, err := t.Stat(name)
	return err == nil && e.Kind != Special
}

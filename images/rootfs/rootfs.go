// Package rootfs has Linux file trees: names, modes and links in memory, file contents in one spool
// file.
//
// A tree may lie over another one, as an image layer lies over its base: a path is then resolved
// through the links of both. So a package's lib/x becomes usr/lib/x on a base with merged /usr.
// Trees are read from layers and written as deterministic tar streams. Nothing is unpacked onto the
// machine's own file system, so building needs no root.
package rootfs

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Kind is the type of an entry.
type Kind byte

// The kinds of entry a tree holds.
const (
	File Kind = iota
	Dir
	Link    // symbolic link
	Deleted // an entry of the lower tree that this tree removes (a whiteout in the layer)
	// a device or a FIFO of a layer that was read. It does not belong in a driver image and cannot
	// be added
	Special
)

// Entry is one name in a tree.
type Entry struct {
	Path string      // clean and relative, without leading slash; never empty
	Kind Kind        // what it is
	Mode fs.FileMode // permission bits and setuid, setgid, sticky
	// of a Link, as written; of a Special, what it is: see special
	Target   string
	UID, GID int
	Size     int64 // of a File
	// the content of this File was not kept (a base from which only metadata is needed)
	ContentOmitted bool
	// Time is the modification time of the content; zero: the time given to WriteTar. rpm -V
	// compares it.
	Time   time.Time
	Xattrs map[string]string // extended attributes by name; the value as the kernel has it

	content *section // shared by hard links
	layer   int      // the number of the layer that it comes from
}

// Tree is a set of entries. The zero value is not usable: call New. A tree is not safe for
// concurrent writes.
type Tree struct {
	spool   *Spool
	lower   *Tree
	entries map[string]*Entry
	names   map[string]map[string]bool // directory -> base names, for ReadDir
	layer   int                        // how many layers were applied
}

// New returns an empty tree with its contents in spool. lower, which may be nil, is the tree below:
// it is read to resolve paths and never changed.
func New(spool *Spool, lower *Tree) *Tree {
	return &Tree{
		spool:   spool,
		lower:   lower,
		entries: map[string]*Entry{},
		names:   map[string]map[string]bool{},
	}
}

// Clone returns a tree with the same entries over the same lower tree. A change of one does not
// change the other.
func (t *Tree) Clone() *Tree {
	c := New(t.spool, t.lower)
	c.layer = t.layer
	c.entries = maps.Clone(t.entries)
	for dir, names := range t.names {
		c.names[dir] = maps.Clone(names)
	}
	return c
}

// All returns the entries of this tree, without those of the lower one, sorted by path.
func (t *Tree) All() []*Entry {
	sorted := slices.Sorted(maps.Keys(t.entries))
	all := make([]*Entry, len(sorted))
	for i, p := range sorted {
		all[i] = t.entries[p]
	}
	return all
}

// Clean checks a name from an archive and returns it in the form of Entry.Path; "." for the root.
func Clean(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) ||
		len(name) > maxName {
		return "", fmt.Errorf("%w: %.100q", ErrUnsafePath, name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: %.100q leaves its folder", ErrUnsafePath, name)
		}
	}
	return path.Clean(name), nil
}

// resolveParent cleans a name and resolves its parent directories through the links of the tree.
func (t *Tree) resolveParent(name string) (string, error) {
	p, err := Clean(name)
	if err != nil {
		return "", err
	}
	if p == "." {
		return "", fmt.Errorf("%w: %q is the root itself", ErrUnsafePath, name)
	}
	dir, err := t.Resolve(path.Dir(p))
	return path.Join(dir, path.Base(p)), err
}

func (t *Tree) addEntry(e *Entry) error {
	if err := checkEntry(e); err != nil {
		return err
	}
	if e.Kind != Dir && len(t.names[e.Path]) > 0 {
		return fmt.Errorf(
			"%w: %s: a directory that is not empty would be replaced by a file",
			ErrFormat,
			e.Path,
		)
	}
	low, ok := t.Lstat(e.Path)
	if ok && e.Kind == File && low.Kind == Dir && t.entries[e.Path] == nil {
		return fmt.Errorf(
			"%w: %s: a directory of the base would be replaced by a file",
			ErrFormat,
			e.Path,
		)
	}
	if err := t.checkParents(e.Path); err != nil {
		return err
	}
	if err := t.spool.take(1, int64(len(e.Path)+len(e.Target))+e.xattrBytes(), 0); err != nil {
		return err
	}
	e.layer = t.layer
	t.entries[e.Path] = e
	for p := e.Path; p != "."; p = path.Dir(p) {
		dir := path.Dir(p)
		base := path.Base(p)
		if t.names[dir][base] {
			break // and so are the folders above it
		}
		if t.names[dir] == nil {
			if err := t.spool.take(1, 0, 0); err != nil { // a folder without an entry needs as much
				return err
			}
			t.names[dir] = map[string]bool{}
		}
		t.names[dir][base] = true
	}
	return nil
}

// checkParents checks that what is above a path is a directory or does not exist.
func (t *Tree) checkParents(p string) error {
	for i := range len(p) {
		if p[i] != '/' || len(t.names[p[:i]]) > 0 {
			continue
		}
		switch up, ok := t.Lstat(p[:i]); {
		case !ok:
			return nil // nothing is below what is missing
		case up.Kind != Dir:
			return fmt.Errorf(
				"%w: %s goes through %s, which is no directory",
				ErrUnsafePath,
				p,
				p[:i],
			)
		}
	}
	return nil
}

func (t *Tree) removeEntry(p string) {
	for name := range t.names[p] {
		t.removeEntry(path.Join(p, name))
	}
	delete(t.names, p)
	delete(t.entries, p)
	delete(t.names[path.Dir(p)], path.Base(p))
}

// Bytes returns the size of all file contents of this tree; hard links count once.
func (t *Tree) Bytes() (sum int64) {
	seen := map[*section]bool{nil: true}
	for _, e := range t.entries {
		if !seen[e.content] {
			seen[e.content] = true
			sum += e.content.size
		}
	}
	return sum
}

// Has reports whether this tree itself, not the lower one, has an entry at a resolved path.
func (t *Tree) Has(p string) bool {
	e, ok := t.entries[p]
	return ok && e.Kind != Deleted
}

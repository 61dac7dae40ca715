package rootfs

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
)

// Bounds of all trees on one spool together: of one image that is read, or of one layer that is
// made. An image with compiler and headers has 40,000 entries, which count twice in a build: in
// their package, and in the layer.
const (
	// files, folders, links and deletions, also those that a later one replaces
	maxEntries = 300_000
	maxText    = 64 << 20 // bytes of names and of targets of links
	maxContent = 16 << 30 // bytes of files, in the spool file
)

// Bounds of one entry.
const (
	maxName  = 4096 // bytes of a path or of a link's target, as the kernel's PATH_MAX
	maxDepth = 64   // folders in a path; packages have 20
	// bytes of extended attributes, names and values: as the kernel's XATTR_SIZE_MAX
	maxXattrs = 64 << 10
	maxLinks  = 40 // links in a chain, as the kernel's MAXSYMLINKS
	// bytes of a file that is read as a whole: databases of packages, manifests
	maxRead = 64 << 20
)

var (
	// ErrUnsafePath is the error for a name that is absolute, leaves the tree, goes through
	// something that is not a directory or through too many links, or has the form of a whiteout.
	ErrUnsafePath = failure.New(failure.Content, "unsafe path")
	// ErrTooLarge is the error for content beyond the bounds.
	ErrTooLarge = failure.New(failure.Content, "too large")
	// ErrFormat is the error for a layer that is malformed, and for entries that exclude each
	// other, such as a file in the place of a folder with files.
	ErrFormat = failure.New(failure.Content, "malformed")
)

// budget is what the trees of a spool may still take.
type budget struct{ entries, text, content int64 }

func newBudget() budget { return budget{maxEntries, maxText, maxContent} }

// take subtracts what an entry needs; the caller has the lock.
func (b *budget) take(entries, text, content int64) error {
	b.entries = b.entries - entries
	b.text = b.text - text
	b.content = b.content - content
	switch {
	case b.entries < 0:
		return fmt.Errorf("%w: more than %d files, folders and links", ErrTooLarge, maxEntries)
	case b.text < 0:
		return fmt.Errorf("%w: the names of files take more than %d bytes", ErrTooLarge, maxText)
	case b.content < 0:
		return fmt.Errorf("%w: the files take more than %d bytes", ErrTooLarge, int64(maxContent))
	}
	return nil
}

// checkEntry checks what an entry says of itself. A part of a path that begins with .wh. would hide
// files of the layers below it: layers express deletions that way, packages and archives cannot.
func checkEntry(e *Entry) error {
	switch {
	case len(e.Path) > maxName || len(e.Target) > maxName:
		return fmt.Errorf(
			"%w: a name of %d bytes, a target of %d: at most %d",
			ErrTooLarge,
			len(e.Path),
			len(e.Target),
			maxName,
		)
	case strings.Count(e.Path, "/") >= maxDepth:
		return fmt.Errorf("%w: %.100q is below more than %d folders", ErrTooLarge, e.Path, maxDepth)
	case e.xattrBytes() > maxXattrs:
		return fmt.Errorf(
			"%w: %.100q has extended attributes of %d bytes",
			ErrTooLarge,
			e.Path,
			e.xattrBytes(),
		)
	case strings.HasPrefix(e.Path, whiteout) || strings.Contains(e.Path, "/"+whiteout):
		return fmt.Errorf(
			"%w: %.100q has the form of a whiteout, which would hide files of the base",
			ErrUnsafePath,
			e.Path,
		)
	}
	return nil
}

func (e *Entry) xattrBytes() (n int64) {
	for name, value := range e.Xattrs {
		n += int64(len(name) + len(value))
	}
	return n
}

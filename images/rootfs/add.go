package rootfs

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// AddFile adds a regular file with the content of r, which must be exactly size bytes.
func (t *Tree) AddFile(name string, mode fs.FileMode, size int64, r io.Reader) error {
	p, err := t.resolveParent(name)
	if err != nil {
		return err
	}
	content, err := t.spool.write(r, size)
	if err != nil {
		return fmt.Errorf("spool %s: %w", name, err)
	}
	return t.addEntry(&Entry{Path: p, Kind: File, Mode: mode, Size: size, content: content})
}

// AddBytes adds a file with the given content.
func (t *Tree) AddBytes(name string, mode fs.FileMode, data []byte) error {
	return t.AddFile(name, mode, int64(len(data)), bytes.NewReader(data))
}

// AddDir adds a directory. It does not change one that exists, in this tree or in the lower one.
func (t *Tree) AddDir(name string, mode fs.FileMode) error {
	p, err := Clean(name)
	if err != nil {
		return err
	}
	p, err = t.Resolve(p)
	if err != nil {
		return err
	}
	if p == "." {
		return nil
	}
	if e, ok := t.Lstat(p); ok {
		if e.Kind != Dir {
			return fmt.Errorf(
				"%w: directory %s: a file of that name is there already",
				ErrFormat,
				name,
			)
		}
		return nil
	}
	return t.addEntry(&Entry{Path: p, Kind: Dir, Mode: mode})
}

// AddLink adds a symbolic link.
func (t *Tree) AddLink(name, target string) error {
	p, err := t.resolveParent(name)
	if err != nil {
		return err
	}
	if target == "" || strings.ContainsRune(target, 0) {
		return fmt.Errorf("link %s: %w: target %q", name, ErrUnsafePath, target)
	}
	if e, ok := t.Lstat(p); ok && e.Kind == Dir {
		// a package's lib64 -> usr/lib64 over a directory: the directory and its content stay
		return nil
	}
	return t.addEntry(&Entry{Path: p, Kind: Link, Mode: 0o777, Target: target})
}

// AddHardLink makes name a second name of the file existing, which must be in this tree.
func (t *Tree) AddHardLink(name, existing string) error {
	from, err := t.resolveParent(existing)
	if err != nil {
		return err
	}
	e, ok := t.entries[from]
	if !ok || e.Kind != File {
		return fmt.Errorf(
			"%w: hard link %s: %s is not a file of the same archive",
			ErrFormat,
			name,
			existing,
		)
	}
	return t.Move(e, name)
}

// Move adds an entry of another tree, with its content, under a new name. Both trees must share
// their spool.
func (t *Tree) Move(e *Entry, name string) error {
	p, err := t.resolveParent(name)
	if err != nil {
		return err
	}
	moved := *e
	moved.Path = p
	return t.addEntry(&moved)
}

// Delete removes a path. A whiteout covers what the lower tree has at that path.
func (t *Tree) Delete(name string) error {
	p, err := t.resolveParent(name)
	if err != nil {
		return err
	}
	t.removeEntry(p)
	if t.lower == nil {
		return nil
	}
	if _, ok := t.lower.Lstat(p); ok {
		return t.addEntry(&Entry{Path: p, Kind: Deleted})
	}
	return nil
}

// AddEntry adds an entry of another tree on the same spool at its own path, through the links of
// the tree below.
func (t *Tree) AddEntry(e *Entry) error {
	switch e.Kind {
	case Dir:
		return t.AddDir(e.Path, e.Mode)
	case Link:
		return t.AddLink(e.Path, e.Target)
	default:
		return t.Move(e, e.Path)
	}
}

// Add adds a member of an archive: a file, directory, link or hard link, with its mode and numeric
// owner. It resolves names through the links of this tree and the lower one, and drops the
// archive's times. It refuses anything else, such as a device.
func (t *Tree) Add(hdr *tar.Header, r io.Reader) error {
	mode := FileMode(hdr.Mode)
	switch hdr = detached(hdr); hdr.Typeflag {
	case tar.TypeDir:
		return t.AddDir(hdr.Name, mode)
	case tar.TypeSymlink:
		return t.AddLink(hdr.Name, hdr.Linkname)
	case tar.TypeLink:
		return t.AddHardLink(hdr.Name, hdr.Linkname)
	case tar.TypeReg:
		if err := CheckMember(hdr); err != nil {
			return fmt.Errorf("%s: %w", hdr.Name, err)
		}
		if err := t.AddFile(hdr.Name, mode, hdr.Size, r); err != nil {
			return err
		}
		p, err := t.resolveParent(hdr.Name)
		if err != nil {
			return err
		}
		e := t.entries[p]
		e.UID = hdr.Uid
		e.GID = hdr.Gid
		e.Xattrs = xattrs(hdr)
		return checkEntry(e)
	default:
		return fmt.Errorf(
			"%s: %w: type %q has no place in an image",
			hdr.Name,
			ErrUnsafePath,
			hdr.Typeflag,
		)
	}
}

// Cancellable makes reads of r fail once the context has ended, so that a large file in the middle
// of unpacking does not hold up a stop.
func Cancellable(ctx context.Context, r io.Reader) io.Reader { return &cancelReader{ctx, r} }

type cancelReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy, which it cancels
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

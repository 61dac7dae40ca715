package driverroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Share makes files of a staged root hard links to equal files, at the same path, of other staged
// roots. Equal are content, owner, mode and time. Only files that a root may share with an image's
// layers are shared, see linkable. It returns the bytes that this saves. A file for which the file
// system has no link stays a copy.
func (r *Root) Share(ctx context.Context, dir string, others []string) (saved int64, err error) {
	roots, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return 0, fmt.Errorf("share files of driver roots: %w", err)
	}
	defer roots.Close()
	own := filepath.Base(dir)
	err = fs.WalkDir(roots.FS(), own, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil || !entry.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
		}
		at := strings.TrimPrefix(name, own+"/")
		for _, other := range others {
			size, err := shareFile(roots, name, filepath.Join(filepath.Base(other), at), at)
			if err != nil {
				return err
			}
			saved += size
			if size > 0 {
				break
			}
		}
		return nil
	})
	if err != nil {
		return saved, fmt.Errorf("share files of %s: %w", dir, err)
	}
	return saved, nil
}

// shareFile replaces a file by a link to another one if they are equal, and returns its size then.
func shareFile(roots *os.Root, name, other, at string) (saved int64, err error) {
	mine, err := roots.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) { // a link that a bake left, which was killed
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	theirs, err := roots.Lstat(other)
	if err != nil || !alike(mine, theirs, at) || os.SameFile(mine, theirs) {
		return 0, nil //nolint:nilerr // it stays a file of its own
	}
	equal, err := equalFiles(roots, name, other)
	if err != nil || !equal {
		return 0, err
	}
	linked := name + tmpSuffix
	err = roots.RemoveAll(linked) // of a bake that was killed
	if err != nil {
		return 0, err
	}
	err = roots.Link(other, linked)
	if err != nil {
		return 0, nil //nolint:nilerr // the file system has no link for it
	}
	err = roots.Rename(linked, name)
	if err != nil {
		return 0, errors.Join(err, roots.Remove(linked))
	}
	return mine.Size(), nil
}

// alike compares everything but content and extended attributes.
func alike(mine, theirs fs.FileInfo, at string) bool {
	a, ok := mine.Sys().(*syscall.Stat_t)
	b, also := theirs.Sys().(*syscall.Stat_t)
	return ok && also && a.Size > 0 && a.Size == b.Size && a.Mode == b.Mode &&
		a.Uid == b.Uid && a.Gid == b.Gid && a.Mtim == b.Mtim &&
		linkable(at, &unix.Stat_t{Mode: a.Mode, Size: a.Size})
}

// equalFiles compares two files. One with extended attributes, such as capabilities, equals no
// other.
func equalFiles(roots *os.Root, name, other string) (bool, error) {
	mine, err := roots.Open(name)
	if err != nil {
		return false, err
	}
	defer mine.Close()
	theirs, err := roots.Open(other)
	if err != nil {
		return false, err
	}
	defer theirs.Close()
	if hasAttributes(mine) || hasAttributes(theirs) {
		return false, nil
	}
	a := make([]byte, 1<<16)
	b := make([]byte, 1<<16)
	for {
		n, err := io.ReadFull(mine, a)
		m, errOther := io.ReadFull(theirs, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return true, nil
		}
		if err != nil || errOther != nil {
			return false, errors.Join(err, errOther)
		}
	}
}

// hasAttributes reports whether a file has extended attributes beside its SELinux label.
func hasAttributes(file *os.File) bool {
	names := make([]byte, 1<<16)
	n, err := unix.Flistxattr(int(file.Fd()), names)
	label := []byte("security.selinux\x00")
	return err == nil && n > 0 && !bytes.Equal(names[:n], label)
}

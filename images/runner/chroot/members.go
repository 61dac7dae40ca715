//go:build linux

package chroot

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/rootfs"
)

// folder creates a folder, or sets the mode of an existing one. Its owner, who runs the step, always gets
// access: the command has no capability to override modes.
func (t *tree) folder(p string, perm fs.FileMode) error {
	d, base, err := t.parent(p)
	if err != nil {
		return err
	}
	err = d.Mkdir(base, 0o700)
	if errors.Is(err, fs.ErrExist) {
		var info fs.FileInfo
		if info, err = d.Lstat(base); err == nil && !info.IsDir() {
			if err = t.remove(p); err != nil {
				return err
			}
			return t.folder(p, perm)
		}
	}
	if err != nil {
		return err
	}
	return d.Chmod(base, perm|0o700)
}

// file writes a regular file with its time in the layer, because make compares times.
func (t *tree) file(ctx context.Context, p string, perm fs.FileMode, hdr *tar.Header, r io.Reader) error {
	for name := range hdr.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return errSparse
		}
	}
	d, base, err := t.clearPath(p)
	if err != nil {
		return err
	}
	f, err := d.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if t.buf == nil {
		t.buf = make([]byte, 256<<10)
	}
	for err == nil && ctx.Err() == nil {
		var n int64
		if n, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(r, 64<<20), t.buf); n == 0 {
			break
		}
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, f.Chmod(perm|0o600), f.Close()); err != nil {
		return err
	}
	return d.Chtimes(base, time.Time{}, hdr.ModTime)
}

func (t *tree) link(p, target string) error {
	if target == "" || len(target) > 4095 || strings.ContainsRune(target, 0) {
		return fmt.Errorf("%w: a link to %.80q", rootfs.ErrUnsafePath, target)
	}
	d, base, err := t.clearPath(p)
	if err != nil {
		return err
	}
	return d.Symlink(target, base)
}

// hardLink makes p another name of an existing file of this layer or a lower one.
func (t *tree) hardLink(p, target string) error {
	name, err := rootfs.Clean(strings.TrimLeft(target, "/"))
	if err != nil {
		return err
	}
	dir, err := t.resolve(path.Dir(name))
	if err != nil {
		return err
	}
	from := path.Join(dir, path.Base(name))
	if from == p {
		return nil
	}
	info, err := t.root.Lstat(from)
	if err != nil {
		return fmt.Errorf("hard link: %w", err)
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%w: a hard link to %s, which is no file", rootfs.ErrUnsafePath, target)
	}
	if _, _, err := t.clearPath(p); err != nil {
		return err
	}
	return t.root.Link(from, p)
}

// clearPath removes the entry at a resolved path, and returns the folder that had it.
func (t *tree) clearPath(p string) (*os.Root, string, error) {
	d, base, err := t.parent(p)
	if err != nil {
		return nil, "", err
	}
	if _, err := d.Lstat(base); err == nil {
		if err := t.remove(p); err != nil {
			return nil, "", err
		}
		return t.parent(p)
	}
	return d, base, nil
}

// removeLower removes the entry that lower layers have at a path or, with inside, only what they have in that
// folder. Entries of the current layer stay. A missing path is no error, as for the kernel's overlays.
func (t *tree) removeLower(p string, inside bool) error {
	if !inside && !t.currentLayer[p] {
		return t.remove(p)
	}
	info, err := t.root.Lstat(p)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // it does not exist
	}
	f, err := t.root.Open(p)
	if err != nil {
		return err
	}
	list, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, d := range list {
		if err := t.removeLower(path.Join(p, d.Name()), false); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) remove(p string) error {
	if p == "." {
		return fmt.Errorf("%w: the root itself would be removed", rootfs.ErrUnsafePath)
	}
	if err := t.close(); err != nil { // it may be below p
		return err
	}
	return t.root.RemoveAll(p)
}

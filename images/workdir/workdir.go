// Package workdir creates private folders for the files of one process, and removes those whose
// owner died.
package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is a private folder. Its owner holds a flock on it: one without a lock has no owner.
type Dir struct {
	Path string // below the parent as it was given

	parent *os.Root
	name   string // below parent
	lock   *os.File
}

// New creates a folder in parent, with a name that begins with prefix, and takes its lock. Another
// process may sweep it away between the two; New then creates another one.
func New(parent, prefix string) (*Dir, error) {
	top, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	for range 100 {
		// mode 0700: other users cannot reach what is in it
		dir, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, errors.Join(err, top.Close())
		}
		d := &Dir{Path: dir, parent: top, name: path.Base(dir)}
		d.lock, err = takeLock(top, d.name)
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, top.Close())
		}
	}
	return nil, errors.Join(
		errors.New("every new folder was taken away at once: is another program cleaning up here?"),
		top.Close(),
	)
}

// takeLock locks a folder that exists: fs.ErrNotExist when it was removed, EWOULDBLOCK when it has
// an owner.
func takeLock(top *os.Root, name string) (*os.File, error) {
	d, err := top.Open(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", d.Name(), err), d.Close())
	}
	here, err := d.Stat()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	there, err := top.Lstat(name)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if !os.SameFile(here, there) {
		return nil, errors.Join(fs.ErrNotExist, d.Close())
	}
	return d, nil
}

// remove deletes what a folder has under a name, with everything below it. It follows no link, and
// names are never paths, however deep the tree is. The kernel refuses to remove a mount point: the
// removal then fails and touches nothing that is mounted.
func remove(parent *os.Root, name string) error {
	if err := parent.Remove(name); !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	if err := parent.Chmod(name, 0o700); err != nil { // a step may have made it unreadable
		return err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	list, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := remove(dir, d.Name()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return parent.Remove(name)
}

// Remove deletes the folder with everything in it and releases the lock. It cannot be cancelled:
// the files must go.
func (d *Dir) Remove() error {
	err := remove(d.parent, d.name)
	return errors.Join(err, d.lock.Close(), d.parent.Close())
}

// Sweep removes the folders of dead owners in parent whose names begin with prefix.
func Sweep(parent, prefix string) error {
	top, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer top.Close()
	list, err := fs.ReadDir(top.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range list {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), prefix) {
			continue
		}
		lock, err := takeLock(top, d.Name())
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			continue // another user's folder
		}
		if err != nil {
			return err
		}
		if err := errors.Join(remove(top, d.Name()), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

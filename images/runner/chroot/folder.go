package chroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const folderPrefix = "step-"

// folder is the private folder of one step, below Options.Work. Its owner holds a flock on it: one without a
// lock has no owner.
type folder struct {
	work *os.Root
	name string // name below work
	path string // absolute
	lock *os.File
}

// newFolder creates a folder and takes its lock. Another process may sweep it away between the two; newFolder
// then creates another one.
func newFolder(work string) (*folder, error) {
	top, err := os.OpenRoot(work)
	if err != nil {
		return nil, err
	}
	for range 100 {
		dir, err := os.MkdirTemp(work, folderPrefix) // mode 0700: other users cannot reach the programs in the root
		if err != nil {
			return nil, errors.Join(err, top.Close())
		}
		f := &folder{work: top, name: path.Base(dir), path: dir}
		if f.lock, err = takeLock(top, f.name); err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, top.Close())
		}
	}
	return nil, errors.Join(errors.New("every new folder was taken away at once: is another program cleaning up here?"), top.Close())
}

// takeLock locks a folder that exists: fs.ErrNotExist when it was removed, EWOULDBLOCK when it has an owner.
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

// root creates the folder that becomes the root of the step.
func (f *folder) root() (*os.Root, error) {
	name := path.Join(f.name, "root")
	if err := f.work.Mkdir(name, 0o755); err != nil {
		return nil, err
	}
	if err := f.work.Chmod(name, 0o755); err != nil { // independent of the umask
		return nil, err
	}
	return f.work.OpenRoot(name)
}

// remove deletes the folder and releases the lock. It cannot be cancelled: the step's files must go.
func (f *folder) remove() error {
	err := removeFolder(f.work, f.name)
	return errors.Join(err, f.lock.Close(), f.work.Close())
}

// sweep removes the folders of dead owners, and their cgroups.
func sweep(work string) error {
	top, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	defer top.Close()
	list, err := fs.ReadDir(top.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range list {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), folderPrefix) {
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
		if name, err := top.ReadFile(path.Join(d.Name(), groupFile)); err == nil {
			if err := removeCgroup(string(name)); err != nil {
				return errors.Join(err, lock.Close())
			}
		}
		if err := errors.Join(removeFolder(top, d.Name()), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// flock never waits. unix.EWOULDBLOCK means that another process holds a lock that excludes this
// one.
func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}

// lockFile opens a regular file, creates it if necessary, does not truncate it, and locks it; again
// while the file is being replaced. The error is a *HeldError if another process holds it.
func lockFile(path string) (*os.File, error) {
	for range 20 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
		if err != nil {
			return nil, err
		}
		err = lockRegular(f)
		if err != nil {
			f.Close()
			return nil, err
		}
		if hasName(f) {
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("%s was replaced twenty times while it was being locked", path)
}

func lockRegular(f *os.File) error {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", f.Name())
	}
	err = flock(f, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &HeldError{Path: f.Name(), Holder: readHolder(f)}
	}
	return err
}

// lockFolder locks a folder. The error is a *HeldError if another process holds it. On a file
// system that cannot lock folders it returns nil: no instance has this lock there.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, &HeldError{Path: dir}
	case err != nil:
		f.Close()
		return nil, nil //nolint:nilerr // this file system cannot lock folders
	}
	return f, nil
}

// hasName says whether the path by which the file was opened still leads to it.
func hasName(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(open, named)
}

// overwrite replaces the content in place: a rename would give the name to a new inode, which
// nobody has locked.
func overwrite(f *os.File, content []byte) error {
	err := f.Truncate(0)
	if err != nil {
		return fmt.Errorf("empty the lock file: %w", err)
	}
	_, err = f.WriteAt(content, 0)
	if err != nil {
		return fmt.Errorf("write the holder into the lock file: %w", err)
	}
	return nil
}

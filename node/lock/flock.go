package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// flock never waits. unix.EWOULDBLOCK means that another process holds a lock that excludes this one.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// errReplaced means that the file was locked, but its name no longer leads to that file.
var errReplaced = errors.New("file was replaced while it was being locked")

// openAndLock opens a regular file, creates it if necessary, does not truncate it, and locks it. With
// unix.EWOULDBLOCK it also returns the open file, so that the caller can read the holder. After errReplaced
// the caller should try again.
func openAndLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		f.Close()
		return nil, err
	}
	if !isSameFile(f, path) {
		f.Close()
		return nil, errReplaced
	}
	return f, nil
}

// lockFolder locks a folder. On a file system that cannot lock folders it returns nil: no instance has this
// lock there.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		f.Close()
		return nil, nil
	}
	return f, nil
}

// isSameFile says whether path still leads to the open file.
func isSameFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// overwrite replaces the content in place: a rename would give the name to a new inode, which nobody has
// locked.
func overwrite(f *os.File, content []byte) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write the holder into the lock file: %w", err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("write the holder into the lock file: %w", err)
	}
	return nil
}

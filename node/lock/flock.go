package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// flock never waits: unix.EWOULDBLOCK says that somebody else holds a lock that excludes this one.
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

// errReplaced: the file was locked, but its name shows another file by now or none.
var errReplaced = errors.New("file was replaced while it was being locked")

// take opens (and makes) a regular file, without truncating it, and locks it. With unix.EWOULDBLOCK the open file is
// returned as well, to be read. errReplaced: try again.
func take(path string) (*os.File, error) {
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
	if !same(f, path) {
		f.Close()
		return nil, errReplaced
	}
	return f, nil
}

// takeFolder locks a folder. A file system that cannot do that has no such lock, for us as for everybody.
func takeFolder(dir string) (*os.File, error) {
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

// same says whether path still shows the open file.
func same(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// overwrite replaces the content in place: a rename would give the name to another inode, which nobody has locked.
func overwrite(f *os.File, content []byte) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write the holder into the lock file: %w", err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("write the holder into the lock file: %w", err)
	}
	return nil
}

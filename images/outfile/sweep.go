package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// createLocked creates a temporary file and takes its flock, by which Sweep of another process
// knows that it is in use. That process may take the new file away before it is locked; there is
// another one then. On file systems without flock nothing is swept.
func createLocked(dir, prefix string) (*os.File, error) {
	for range 100 {
		f, err := os.CreateTemp(dir, prefix+"*")
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		swept := errors.Is(err, unix.EWOULDBLOCK)
		if err != nil && !swept && !errors.Is(err, unix.ENOTSUP) {
			return nil, errors.Join(
				fmt.Errorf("lock %s: %w", f.Name(), err),
				f.Close(),
				os.Remove(f.Name()),
			)
		}
		if !swept && isNamed(f) {
			return f, nil
		}
		err = f.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf(
		"each new file in %s is taken away at once: is another program cleaning up there?",
		dir,
	)
}

// isNamed reports whether the name of an open file still leads to it.
func isNamed(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	if err != nil {
		return false
	}
	return os.SameFile(opened, named)
}

// Sweep removes temporary files that no process writes any more: nobody has their lock. It reports
// no errors, because it only tidies up.
func Sweep(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Type().IsRegular() {
			removeDead(filepath.Join(dir, e.Name()))
		}
	}
}

// removeDead removes a file whose lock is free.
func removeDead(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && isNamed(f) { // its process may have given it its name meanwhile
		_ = os.Remove(path)
	}
}

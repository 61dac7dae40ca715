package fetch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tryLock opens (or creates) a file and takes its flock without waiting. It returns nil without an
// error when another process holds it. A lock counts only while the name still leads to the locked
// file: the last holder may have renamed or removed the file between our open and our flock, and we
// would then work on a file that no other process can see.
func tryLock(path string, flags int) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600) //nolint:gosec // a path inside the store
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			closeErr := f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, closeErr
			}
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return nil, fmt.Errorf("lock %s: %w; is the cache on a file system without flock?", path, err)
		}
		if sameFile(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if flags&os.O_EXCL != 0 {
			// a sweeping process took our new file for a dead one; the caller picks another name
			return nil, nil
		}
	}
	return nil, fmt.Errorf("lock %s: it was replaced 100 times meanwhile", path)
}

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(held, named)
}

// sweep removes files of a folder that no process holds: those of a Writer, and others that are
// older than this. It tidies up and reports no errors: a file that it cannot remove now stays for
// the next time.
func sweep(dir string, older time.Duration) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() ||
			time.Since(fi.ModTime()) < older && !strings.HasPrefix(e.Name(), writing) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := tryLock(path, 0)
		if err != nil || f == nil {
			continue
		}
		_ = os.Remove(path) // under the lock: tryLock proved that the name leads to the locked file
		_ = f.Close()
	}
}

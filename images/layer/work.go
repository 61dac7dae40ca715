package layer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/fetch"
)

// WorkFolder makes an empty folder in the cache for files that another program opens by name. remove takes it
// away. Folders of builders that were killed go when the next one is made: each is locked while its owner
// lives.
func WorkFolder(store *fetch.Store) (dir string, remove func() error, err error) {
	parent := filepath.Join(store.Dir(), "work")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, fmt.Errorf("make room for modules: %w", err)
	}
	sweep(parent)
	if dir, err = os.MkdirTemp(parent, "modules-"); err != nil {
		return "", nil, fmt.Errorf("make room for modules: %w", err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("make room for modules: %w", err)
	}
	remove = func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", nil, errors.Join(fmt.Errorf("make room for modules in %s: %w", parent, err), remove())
	}
	return dir, remove, nil
}

// unlocked is how long a folder may be there without its lock: a moment between two calls.
const unlocked = time.Minute

// sweep removes folders whose owners have ended. A folder that cannot be removed now is tried again next
// time.
func sweep(parent string) {
	list, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < unlocked {
			continue
		}
		path := filepath.Join(parent, e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = f.Close()
	}
}

package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// named is a locked file with its name.
type named struct {
	file **os.File
	path string
}

// replaced returns the locked files whose names lead elsewhere now.
func (l *Lock) replaced() []named {
	all := []named{{&l.own, l.path}, {&l.legacy, l.legacyPath}}
	return slices.DeleteFunc(
		all,
		func(f named) bool { return *f.file == nil || isSameFile(*f.file, f.path) },
	)
}

// Lost compares the names with the files that we locked. It returns nil when they match, else an
// error for each file that was removed or replaced (joined, our own file first). k8s-driver-manager
// removes NVIDIA's file in normal operation; Retake repairs that.
func (l *Lock) Lost() error {
	var errs []error
	for _, f := range l.replaced() {
		text := "another program replaced the lock file %s: another driver container may believe that it owns this node; " +
			"find out who with `fuser %[1]s`, and end it"
		if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
			text = "another program removed the lock file %s; it will be made again"
		}
		errs = append(errs, fmt.Errorf(text, f.path))
	}
	return errors.Join(errs...)
}

// Retake creates and locks again the files that Lost reports, where no other process has locked
// them. It keeps the old lock until then. It returns a *HeldError when another process was faster.
func (l *Lock) Retake() error {
	var errs []error
	for _, f := range l.replaced() {
		renewed, err := lockFile(f.path)
		if err != nil {
			errs = append(errs, wrapAttempt(err))
			continue
		}
		(*f.file).Close()
		*f.file = renewed
	}
	if l.own != nil {
		errs = append(errs, l.writeHolder())
	}
	return errors.Join(errs...)
}

// Release empties our own file and drops the locks. It never unlinks our file. It removes NVIDIA's
// file when its name still leads to the file that we locked, because NVIDIA's scripts take the
// file's existence for a running driver. A second call does nothing.
func (l *Lock) Release() error {
	if l.own == nil {
		return nil
	}
	err := l.own.Truncate(0)
	if isSameFile(l.legacy, l.legacyPath) {
		err = errors.Join(err, os.RemoveAll(l.legacyPath))
	}
	l.close()
	l.own = nil
	l.legacy = nil
	l.folder = nil
	if err != nil {
		return fmt.Errorf("release the driver's lock: %w", err)
	}
	return nil
}

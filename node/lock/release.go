package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// replaced returns the locked files whose names lead elsewhere now.
func (l *Lock) replaced() []**os.File {
	all := []**os.File{&l.own, &l.legacy}
	return slices.DeleteFunc(all, func(f **os.File) bool { return *f == nil || hasName(*f) })
}

// Lost compares the names with the files that we locked. It returns nil when they match, else an
// error for each file that was removed or replaced (joined, our own file first). k8s-driver-manager
// removes NVIDIA's file in normal operation; Retake repairs that.
func (l *Lock) Lost() error {
	var errs []error
	for _, f := range l.replaced() {
		text := "another program replaced the lock file %s: another driver container may believe that it owns this node; " +
			"find out who with `fuser %[1]s`, and end it"
		path := (*f).Name()
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			text = "another program removed the lock file %s; it will be made again"
		}
		errs = append(errs, fmt.Errorf(text, path))
	}
	return errors.Join(errs...)
}

// Retake creates and locks again the files that Lost reports, where no other process has locked
// them. It keeps the old lock until then. It returns a *HeldError when another process was faster.
func (l *Lock) Retake() error {
	var errs []error
	for _, f := range l.replaced() {
		renewed, err := lockFile((*f).Name())
		if err != nil {
			errs = append(errs, wrapAttempt(err))
			continue
		}
		(*f).Close()
		*f = renewed
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
	if hasName(l.legacy) {
		err = errors.Join(err, os.RemoveAll(l.legacy.Name()))
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

package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// LostError says that a lock file's name shows another file than the one that we hold, or none.
type LostError struct {
	Path string
	Gone bool // nothing has that name
}

func (e *LostError) Error() string {
	if e.Gone {
		return fmt.Sprintf("somebody removed the lock file %s; it will be made again", e.Path)
	}
	return fmt.Sprintf("somebody replaced the lock file %s: another driver container may believe that it owns this node; find out who with "+
		"`fuser %s`, and end it", e.Path, e.Path)
}

// Lost compares the names with the files that we hold: a *LostError for each that was removed or replaced (joined, our own
// first), nil when all is well. k8s-driver-manager removes NVIDIA's file as a matter of course: Retake repairs that.
func (l *Lock) Lost() error {
	var errs []error
	for _, f := range []struct {
		file *os.File
		path string
	}{{l.own, l.path}, {l.legacy, l.legacyPath}} {
		if f.file == nil || same(f.file, f.path) {
			continue
		}
		_, err := os.Lstat(f.path)
		errs = append(errs, &LostError{Path: f.path, Gone: errors.Is(err, fs.ErrNotExist)})
	}
	return errors.Join(errs...)
}

// Retake makes and locks again what Lost complains of, where nobody else has it, and keeps the old one until then. It
// returns a *HeldError when somebody else was faster.
func (l *Lock) Retake() error {
	var errs []error
	for _, f := range []struct {
		file **os.File
		path string
	}{{&l.own, l.path}, {&l.legacy, l.legacyPath}} {
		if *f.file == nil || same(*f.file, f.path) {
			continue
		}
		renewed, err := takeAgain(f.path)
		if err != nil {
			errs = append(errs, plain(err))
			continue
		}
		(*f.file).Close()
		*f.file = renewed
	}
	if l.own != nil {
		errs = append(errs, l.sign())
	}
	return errors.Join(errs...)
}

// Release empties our own file and drops the locks. Our file is never unlinked; NVIDIA's is, when its name still shows the file
// that we hold, because their scripts take its existence for a running driver. A second call does nothing.
func (l *Lock) Release() error {
	if l.own == nil {
		return nil
	}
	var errs []error
	if same(l.legacy, l.legacyPath) {
		if err := os.Remove(l.legacyPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("release the driver's lock: %w", err))
		}
	}
	if err := l.own.Truncate(0); err != nil {
		errs = append(errs, fmt.Errorf("release the driver's lock: %w", err))
	}
	for _, f := range []*os.File{l.legacy, l.own, l.folder} {
		if f == nil {
			continue
		}
		// Said aloud, so that a descriptor which somebody duplicated against the rules does not keep the lock.
		if err := flock(f, unix.LOCK_UN); err != nil {
			errs = append(errs, fmt.Errorf("release the driver's lock: %w", err))
		}
	}
	l.close()
	l.own, l.legacy, l.folder = nil, nil, nil
	return errors.Join(errs...)
}

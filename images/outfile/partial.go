package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// PartialName is the name that Resume gives to a file until it is complete.
func PartialName(path string) string {
	dir, base := filepath.Split(path)
	return filepath.Join(dir, "."+base[:min(len(base), maxPrefix)]+".partial")
}

// Resume writes a large file that another call may continue: fill gets the file under PartialName, with what
// an earlier call left there if keep is set, and empty otherwise. After an error it stays. When fill returns,
// the file is synced and takes its name. A link is followed as Write does; what is no file is refused.
func Resume(path string, keep bool, fill func(*os.File) error) (err error) {
	file, stream, err := find(path)
	if err == nil && stream {
		err = fmt.Errorf("%s is no file, so that nothing can be continued in it", path)
	}
	if err != nil {
		return err
	}
	mode, err := replaceable(file)
	if err != nil {
		return err
	}
	f, err := openPartial(PartialName(file), keep)
	if err != nil {
		return DiskFull(file, err)
	}
	defer func() { err = errors.Join(err, ignoreClosed(f.Close())) }()
	if err := fill(f); err != nil {
		return fmt.Errorf("%w (what is written is kept in %s)", DiskFull(file, err), f.Name())
	}
	if err := errors.Join(f.Chmod(mode), f.Sync()); err != nil {
		return DiskFull(file, err)
	}
	if _, err := replaceable(file); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	return errors.Join(f.Close(), syncFolder(filepath.Dir(file)))
}

// openPartial opens and locks a partial file. It follows no link, so that nobody who may write to the folder
// can point it to another file.
func openPartial(name string, keep bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = refuse(name, info.Mode())
	case unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK: //nolint:errorlint // a system call's own error
		err = fmt.Errorf("%s: another process writes to it", name)
	case !keep:
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncFolder makes a rename durable. Media such as FAT do not offer it for folders, which is no error.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

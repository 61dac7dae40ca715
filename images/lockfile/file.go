package lockfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Read reads a file; want is that of Parse. A file that is not there is fs.ErrNotExist.
func Read(file string, want func(name string) bool) (_ *Lock, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	return Parse(file, data, want)
}

// Write replaces a file as a whole. What was there stays until the new one is on the disk.
func (l *Lock) Write(file string) (err error) {
	data, err := l.Encode()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".tmp-*")
	if err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write the lock: %w", err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/driver-container/driver-container/images/outfile"
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

// Write writes the lock to a file, by the rule of package outfile: what was there stays until the new lock is
// on the disk.
func (l *Lock) Write(ctx context.Context, file string) error {
	data, err := l.Encode()
	if err != nil {
		return err
	}
	if err := outfile.Write(ctx, file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

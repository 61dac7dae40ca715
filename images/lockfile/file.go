package lockfile

import (
	"context"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/outfile"
)

// Read reads a file; want is that of Parse. A file that is not there is fs.ErrNotExist.
func Read(file string, want func(name string) bool) (*Lock, error) {
	data, err := bounded.File(file, MaxSize)
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

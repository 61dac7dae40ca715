package blobstat

import (
	"context"
	"io"
	"os"
	"path/filepath"
)

// copyPiece is how many bytes are copied before the context is asked again.
const copyPiece = 64 << 20

// Copy copies a blob of that size to w. If it was verified and has not changed since, the kernel copies it
// (copy_file_range, which file systems with shared blocks do without copying). Otherwise verified does.
func (l *Layouts) Copy(ctx context.Context, w io.Writer, f *os.File, size int64, verified func(io.Writer) error) error {
	dir, name := filepath.Split(f.Name())
	record := l.Of(dir)
	if !record.Has(name, size) {
		if err := verified(w); err != nil {
			return err
		}
		record.Add(name)
		return nil
	}
	for left := size; left > 0; left -= copyPiece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(w, f, min(left, copyPiece)); err != nil {
			return err
		}
	}
	return nil
}

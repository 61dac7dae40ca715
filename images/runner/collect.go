package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Bounds of a result, for a command that runs away. All modules of all drivers together stay far
// below them.
const (
	maxResultFiles = 100_000
	maxResultBytes = 16 << 30
	maxResultPath  = 1024
)

// Collect copies a step's output into dir, which should be empty. Regular files get mode 0644,
// folders 0755. A link, a device, a setuid file, or a result above the bounds is an error, which
// Collect finds before it copies anything. Nothing may write to from during the call.
func Collect(ctx context.Context, from *os.Root, dir string) error {
	to, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder for the result: %w", err)
	}
	defer to.Close()
	c := collector{from: from, to: to}
	if err := c.walk(ctx, ".", c.check); err != nil {
		return fmt.Errorf("the command's output: %w", err)
	}
	if err := c.walk(ctx, ".", c.copy); err != nil {
		return fmt.Errorf("copy the command's output to %s: %w", dir, err)
	}
	return nil
}

type collector struct {
	from, to *os.Root
	files    int
	bytes    int64
}

// walk visits everything below a folder, each folder before its content. The command may have left
// folders unreadable.
func (c *collector) walk(
	ctx context.Context,
	dir string,
	visit func(name string, info fs.FileInfo) error,
) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := c.from.Chmod(dir, 0o755); err != nil {
		return err
	}
	f, err := c.from.Open(dir)
	if err != nil {
		return err
	}
	list, err := f.ReadDir(maxResultFiles)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	for _, d := range list {
		name := path.Join(dir, d.Name())
		info, err := c.from.Lstat(name)
		if err != nil {
			return err
		}
		if err := visit(name, info); err != nil {
			return err
		}
		if info.IsDir() {
			if err := c.walk(ctx, name, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) check(name string, info fs.FileInfo) error {
	c.files++
	switch {
	case c.files >= maxResultFiles:
		return fmt.Errorf("more than %d files", maxResultFiles)
	case len(name) > maxResultPath:
		return fmt.Errorf("%.80s...: a path of %d bytes", name, len(name))
	case info.IsDir():
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf(
			"%s is neither a regular file nor a folder (%s): a result has no place for it",
			name,
			info.Mode().Type(),
		)
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return fmt.Errorf("%s is setuid or setgid: a result has no place for it", name)
	}
	if c.bytes += info.Size(); c.bytes > maxResultBytes {
		return fmt.Errorf("more than %d bytes", int64(maxResultBytes))
	}
	return nil
}

func (c *collector) copy(name string, info fs.FileInfo) error {
	if info.IsDir() {
		if err := c.to.Mkdir(name, 0o755); err != nil {
			return err
		}
		return c.to.Chmod(name, 0o755) // independent of the umask
	}
	if err := c.from.Chmod(name, 0o644); err != nil { // it may be unreadable
		return err
	}
	in, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, info.Size())
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s changed while it was copied", name)
	}
	return errors.Join(err, out.Chmod(0o644), out.Close())
}

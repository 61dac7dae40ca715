package outfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readerWait is the longest wait for a program that opens the other end of a named pipe.
const readerWait = 10 * time.Minute

// writeStream writes to a pipe or a device. What is written cannot be taken back after an error.
// The end of ctx also ends a write that the reader of a pipe keeps waiting.
func writeStream(ctx context.Context, path string, fill func(io.Writer) error) (err error) {
	f, err := openStream(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Now()) })
	defer stop()
	err = fill(f)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// openStream waits until a pipe has a reader. It does not block in the system call, which nothing
// interrupts.
func openStream(ctx context.Context, path string) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		readerWait,
		fmt.Errorf("%s: no program has read from it for %v", path, readerWait),
	)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err == nil {
			return f, stillStream(f)
		}
		if !errors.Is(err, unix.ENXIO) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stillStream closes a file that is neither a pipe nor a character device any more: it must not be
// overwritten in place.
func stillStream(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) == 0 {
		return errors.Join(refuse(f.Name(), info.Mode()), f.Close())
	}
	return nil
}

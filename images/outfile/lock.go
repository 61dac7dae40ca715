package outfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is the longest wait for another process that writes to the same folder.
const lockWait = 10 * time.Minute

// The wait between two attempts to take a lock: short at first, because most holders write a few
// small files.
const (
	firstRetry = time.Millisecond
	lastRetry  = 20 * time.Millisecond
)

// LockFolder takes the flock of the folder itself, which leaves no file behind, and waits for other
// holders.
func LockFolder(ctx context.Context, dir string) (unlock func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		lockWait,
		fmt.Errorf("another process has been writing to %s for %v", dir, lockWait),
	)
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(
				fmt.Errorf("lock %s: %w; is it on a file system without flock?", dir, err),
				f.Close(),
			)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(wait):
		}
	}
}

package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is the longest wait for another process that writes to the same layout.
const lockWait = 10 * time.Minute

// replaceFile writes a whole file: temporary name, fsync, rename.
func replaceFile(path string, data []byte) error {
	return writeFile(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeFile lets fill write to a temporary file beside path, and renames it to path if fill succeeds. After
// an error nothing is left. The temporary file is locked while it is written, so that sweepTemp recognises
// the file of a killed process by its free lock.
func writeFile(path string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	prefix := "." + filepath.Base(path) + ".tmp-"
	sweepTemp(dir, prefix)
	f, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return diskFull(dir, err)
	}
	defer func() {
		if err != nil {
			err = diskFull(dir, errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name())))
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// sweepTemp removes temporary files that no process writes any more. It reports no errors, because it only
// tidies up. It keeps files of the last second, because a new file exists for a moment before it is locked.
func sweepTemp(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || !strings.HasPrefix(e.Name(), prefix) || time.Since(fi.ModTime()) < time.Second {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}
}

// lockDir takes the flock of the folder itself, which leaves no file behind, and waits for other holders.
func lockDir(ctx context.Context, dir string) (unlock func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("another process has been writing to %s for %v", dir, lockWait))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w; is it on a file system without flock?", dir, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-tick.C:
		}
	}
}

func diskFull(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the disk that holds %s is full: free some space or write elsewhere: %w", path, err)
	}
	return err
}

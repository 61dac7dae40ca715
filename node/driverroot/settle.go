package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A root is served as soon as it is complete for those who look at it. Whether it is on the disk as well makes a difference only
// after the machine went down, and to wait for it can take long: a file system writes out everything at once, with what the runtime
// has just unpacked. So until Settle has waited, a root has a file in it with the name of this boot, and counts as complete in this
// boot only. The marker, which is written later, cannot be on the disk without it.
const unsettledPath = "usr/share/nvidia-driver/staged.boot"

const settleWait = 5 * time.Minute

var errUnsettled = errors.New("the machine went down before all of it was on the disk")

// bootID names the time since the machine's start; it is in every procfs.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("which boot is this: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// unsettled says whether a root still waits for Settle; errUnsettled for one that nothing waited for while it could be done.
func unsettled(root *os.Root) (bool, error) {
	text, err := root.ReadFile(unsettledPath)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	boot, err := bootID()
	if err != nil {
		return true, err
	}
	if string(text) != boot {
		return true, errUnsettled
	}
	return true, nil
}

// Settle waits until the roots that were staged since the machine's start are on the disk. Until it was called, a start after the
// machine went down stages again. It takes seconds when the disk is busy, so it is for the time when the driver serves.
func (r Root) Settle(ctx context.Context) error {
	if r.Storage == "" {
		return nil
	}
	if err := r.settle(ctx); err != nil {
		return fmt.Errorf("write the staged driver root to the disk: %w", err)
	}
	return nil
}

func (r Root) settle(ctx context.Context) error {
	roots, err := os.OpenRoot(filepath.Join(r.Storage, rootsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer roots.Close()
	var waiting []*os.Root
	defer func() {
		for _, root := range waiting {
			root.Close()
		}
	}()
	for _, e := range readDir(roots, ".") {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		root, err := roots.OpenRoot(e.Name())
		if err != nil {
			continue // Prune removed it
		}
		if yes, err := unsettled(root); !yes || err != nil {
			root.Close()
			continue
		}
		waiting = append(waiting, root)
	}
	if len(waiting) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, settleWait, fmt.Errorf("not done after %s", settleWait))
	defer cancel()
	dir, err := roots.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syncFS(ctx, dir); err != nil {
		return err
	}
	var errs []error
	for _, root := range waiting {
		errs = append(errs, settled(root))
	}
	return errors.Join(errs...)
}

// settled takes the file away. That it is gone has to be on the disk too, or the next boot would stage again.
func settled(root *os.Root) error {
	if err := root.Remove(unsettledPath); err != nil {
		return err
	}
	dir, err := root.Open(path.Dir(unsettledPath))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

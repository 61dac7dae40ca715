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

// A root is served as soon as it is complete for its consumers. Whether it is on the disk matters only after
// the machine went down, and waiting for that can take long, because a file system writes everything at once,
// including what the runtime has just unpacked. Until Settle has waited, a root therefore has a file with the
// id of this boot and counts as complete only in this boot. The marker is written after that file, so it
// cannot be on the disk without it.
const unsettledPath = "usr/share/nvidia-driver/staged.boot"

const settleWait = 5 * time.Minute

var errUnsettled = errors.New("the machine went down before all of it was on the disk")

// bootID returns the id of this boot; every procfs has it.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("which boot is this: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// unsettled says whether a root still waits for Settle. It returns errUnsettled when the machine went down
// before Settle ran.
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

// Settle waits until the roots that were staged in this boot are on the disk. Without it, a start after the
// machine went down stages again. It takes seconds when the disk is busy, so call it when the driver serves.
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
		errs = append(errs, removeUnsettledMark(root))
	}
	return errors.Join(errs...)
}

// removeUnsettledMark removes the file. The removal has to be on the disk, too, or the next boot would stage
// again.
func removeUnsettledMark(root *os.Root) error {
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

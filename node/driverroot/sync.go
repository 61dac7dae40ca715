package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A root is served as soon as it is complete for its consumers. Whether it is on the disk matters
// only after the machine went down, and waiting for that can take long, because a file system
// writes everything at once, including what the runtime has just unpacked. Until Sync has waited,
// the marker of a root therefore names this boot, and the root counts as complete only in this
// boot.

const syncWait = 5 * time.Minute

var errNotSynced = errors.New("the machine went down before all of it was on the disk")

// BootID returns the id of this boot; every procfs has it.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("which boot is this: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Sync waits until the roots that were staged in this boot are on the disk. Without it, a start
// after the machine went down stages again. It takes seconds when the disk is busy, so call it when
// the driver serves.
func (r *Root) Sync(ctx context.Context) error {
	if r.Storage == "" {
		return nil
	}
	if err := r.sync(ctx); err != nil {
		return fmt.Errorf("write the staged driver root to the disk: %w", err)
	}
	return nil
}

func (r *Root) sync(ctx context.Context) error {
	boot, err := BootID()
	if err != nil {
		return err
	}
	roots, err := os.OpenRoot(filepath.Join(r.Storage, rootsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer roots.Close()
	waiting := map[*os.Root]marker{}
	entries, err := fs.ReadDir(roots.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		root, err := roots.OpenRoot(e.Name())
		if err != nil {
			continue // Prune removed it
		}
		defer root.Close()
		if m, err := readMarker(root); err == nil && m.Boot == boot {
			waiting[root] = m
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		syncWait,
		fmt.Errorf("not done after %s", syncWait),
	)
	defer cancel()
	dir, err := roots.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syncFS(ctx, dir); err != nil {
		return err
	}
	for root, m := range waiting {
		m.Boot = ""
		if err := m.write(root); err != nil {
			return err
		}
	}
	return syncFS(ctx, dir) // the new markers, or the next boot would stage again
}

package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/mounttable"
)

const keepRoots = 2 // beside this driver's: the one before, and one more

// Prune waits until the root is written to the disk, and removes old roots, except those that have
// one of the needed paths or are in one. Each takes seconds, so it is called when the driver serves.
// When ctx ends, it removes no further root: the next start does.
func (r *Root) Prune(ctx context.Context, needed []string) error {
	if r.Storage == "" {
		return nil
	}
	err := r.Sync(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // see above
	}
	if err != nil {
		r.Log.Warn("the driver root is not on the disk yet", "error", err)
	}
	return r.prune(ctx, keepRoots, slices.Concat(needed, r.Baked))
}

// prune removes old staged roots, except our own and the newest keep others. It keeps roots that
// are mounted anywhere, also in a pod that keeps what it mounted when it began, and those that have
// a needed path or are in one.
func (r *Root) prune(ctx context.Context, keep int, needed []string) error {
	roots := filepath.Join(r.Storage, rootsDir)
	entries, err := os.ReadDir(roots)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove old driver roots: %w", err)
	}
	own, err := r.folder(r.Version, r.ID)
	if err == nil { // else there is no own root
		needed = append(slices.Clone(needed), own)
	}
	var olds []string
	errs := []error{r.removeLeftovers(roots)}
	for _, e := range entries {
		dir := filepath.Join(roots, e.Name())
		within := func(path string) bool {
			return mounttable.AtOrBelow(path, dir) || mounttable.AtOrBelow(dir, path)
		}
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.ContainsFunc(needed, within) {
			olds = append(olds, dir)
		}
	}
	slices.SortStableFunc(olds, func(a, b string) int { return stagedAt(b).Compare(stagedAt(a)) })
	for _, dir := range olds[min(keep, len(olds)):] {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, r.Remove(dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove old driver roots: %w", err)
	}
	return nil
}

// stagedAt returns the time when a root was made; the zero time without a marker.
func stagedAt(dir string) time.Time {
	st, err := os.Lstat(filepath.Join(dir, markerPath))
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// Remove removes a staged root if there is one, unless it is mounted here or in a pod.
func (r *Root) Remove(dir string) error {
	used, err := mounttable.Shows(dir)
	if err != nil {
		return err
	}
	if used {
		r.Log.Info("an old driver root stays, because it is mounted here or in a pod", "path", dir)
		return nil
	}
	if strings.HasPrefix(filepath.Base(dir), tmpPrefix) {
		return r.removeTree(dir)
	}
	// The folder is renamed first: an interrupted removal must not leave a root that looks
	// complete.
	tmp := filepath.Join(filepath.Dir(dir), tmpPrefix+filepath.Base(dir))
	err = os.Rename(dir, tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Log.Info("removing an old driver root", "path", dir)
	return r.removeTree(tmp)
}

// removeTree removes a folder of ours, whole or not at all: it refuses one with mounts.
func (r *Root) removeTree(dir string) error {
	mounts, err := mounttable.Below(dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf(
			"%s is mounted in %s, which cannot be removed before: umount %s",
			mounts[0].Source,
			dir,
			mounts[0].Point,
		)
	}
	return r.removeBare(dir)
}

// removeBare removes a folder through a view of its parent that has no mounts: if another program
// mounts a /dev into it meanwhile, the host's devices stay. The kernel does not remove a mount
// point of this container.
func (r *Root) removeBare(dir string) error {
	root, err := r.bareRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(filepath.Base(dir))
}

package driverroot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

const keepRoots = 2 // beside this driver's: the one before, and one more

// Prune waits until the root is written to the disk, and removes old roots, except those that have one of the
// needed paths. Each takes seconds, so it is called when the driver serves.
func (r *Root) Prune(ctx context.Context, needed []string) error {
	if r.Storage == "" {
		return nil
	}
	if err := r.Sync(ctx); err != nil && ctx.Err() == nil { // otherwise it stops, and the next start does it
		r.Log.Warn("the driver root is not on the disk yet", "error", err)
	}
	return r.prune(keepRoots, needed)
}

// prune removes old staged roots, except our own and the newest keep others. It keeps roots that are mounted
// anywhere, also in a pod that keeps what it mounted when it began, or have a needed path, and always removes
// damaged roots that are not mounted.
func (r *Root) prune(keep int, needed []string) error {
	roots := filepath.Join(r.Storage, rootsDir)
	entries, err := os.ReadDir(roots)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove old driver roots: %w", err)
	}
	own, _ := r.folder(r.Version, r.ID) // without an identity there is no own root
	needed = append(slices.Clone(needed), own)
	type old struct {
		dir  string
		used time.Time
	}
	var olds []old
	errs := []error{r.removeLeftovers(roots)}
	for _, e := range entries {
		dir := filepath.Join(roots, e.Name())
		within := func(path string) bool { return mounttable.AtOrBelow(path, dir) }
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.ContainsFunc(needed, within) {
			olds = append(olds, old{dir, stagedAt(dir)})
		}
	}
	slices.SortStableFunc(olds, func(a, b old) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.dir, b.dir)) })
	for _, o := range olds[min(max(keep, 0), len(olds)):] {
		errs = append(errs, r.removeUnused(o.dir))
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

func (r *Root) removeUnused(dir string) error {
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
	// The folder is renamed first: an interrupted removal must not leave a root that looks complete.
	tmp := filepath.Join(filepath.Dir(dir), tmpPrefix+filepath.Base(dir))
	if err := os.Rename(dir, tmp); err != nil {
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
		return fmt.Errorf("%s is mounted in %s, which cannot be removed before: umount %s", mounts[0].Source, dir, mounts[0].Point)
	}
	return r.removeBare(dir)
}

// removeBare removes a folder through a view of its parent that has no mounts: if another program mounts a /dev into
// it meanwhile, the host's devices stay. The kernel does not remove a mount point of this container.
func (r *Root) removeBare(dir string) error {
	view, err := r.bare(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer view.Close()
	root, err := rootAt(view)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(filepath.Base(dir))
}

// Room returns how many bytes Stage would write now, and how many of other roots it would remove for that if the storage were full. Both
// are 0 when the root is staged already, or shares the image's files. It changes nothing.
func (r *Root) Room() (need, spare uint64) {
	own, err := r.folder(r.Version, r.ID)
	if r.Storage == "" || err != nil {
		return 0, 0
	}
	roots := filepath.Dir(own)
	root, err := os.OpenRoot(own)
	if err == nil {
		defer root.Close()
		if checkIntact(root, r.Version, r.ID) == nil {
			return 0, 0
		}
	}
	if dir, image, reason, err := r.openTarget(roots); err == nil {
		defer dir.Close()
		defer image.close()
		if reason == nil {
			return 0, 0
		}
	}
	image, _, err := r.view()
	if err != nil {
		return 0, 0 // Stage says why
	}
	defer image.Close()
	need = treeSize(fmt.Sprintf("/proc/self/fd/%d", image.Fd()), func(at string) bool { return leftOut[at] || emptied[at] })
	entries, err := os.ReadDir(roots)
	if err != nil {
		return need, 0
	}
	for _, e := range entries {
		dir := filepath.Join(roots, e.Name())
		if used, err := mounttable.Shows(dir); err == nil && !used {
			spare += treeSize(dir, func(string) bool { return false })
		}
	}
	return need, spare
}

// treeSize returns the bytes that the files of a tree take. What cannot be read, and what has another name
// elsewhere, does not count.
func treeSize(dir string, skip func(at string) bool) (total uint64) {
	_ = fs.WalkDir(os.DirFS(dir), ".", func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // it does not count
		case d.IsDir() && skip(at):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, at), &st) == nil && st.Nlink == 1 {
			total += uint64(st.Blocks) * 512 //nolint:gosec // never negative
		}
		return nil
	})
	return total
}

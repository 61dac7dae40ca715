package driverroot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Prune removes old staged roots, all but the newest keep besides our own. Roots that are mounted anywhere, or that Target is a link
// to, stay, and damaged ones that are not mounted always go.
func (r Root) Prune(keep int) error {
	if r.Storage == "" {
		return nil
	}
	roots := filepath.Join(r.Storage, rootsDir)
	entries, err := os.ReadDir(roots)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove old driver roots: %w", err)
	}
	own, _ := r.name() // without an identity nothing is our own
	type old struct {
		dir  string
		used time.Time
	}
	var olds []old
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(roots, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), badPrefix):
			errs = append(errs, r.removeUnused(dir))
		case e.IsDir() && e.Name() != own && !strings.HasPrefix(e.Name(), "."):
			olds = append(olds, old{dir, stagedAt(dir)})
		}
	}
	slices.SortFunc(olds, func(a, b old) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.dir, b.dir)) })
	for _, o := range olds[min(max(keep, 0), len(olds)):] {
		errs = append(errs, r.removeUnused(o.dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove old driver roots: %w", err)
	}
	return nil
}

// stagedAt is the time when a root was made; the year 1 for one without a readable marker.
func stagedAt(dir string) time.Time {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return time.Time{}
	}
	defer root.Close()
	m, err := readMarker(root)
	if err != nil {
		return time.Time{}
	}
	return m.Staged
}

func (r Root) removeUnused(dir string) error {
	used, err := inUse(dir)
	if err != nil || used {
		return err
	}
	if linked, err := r.Linked(); err != nil || linked != "" && identity(linked) == identity(dir) {
		return err
	}
	// A new name first: a removal that is interrupted must not leave a root that looks complete.
	tmp := filepath.Join(filepath.Dir(dir), tmpPrefix+strings.TrimPrefix(filepath.Base(dir), "."))
	if err := os.Rename(dir, tmp); err != nil {
		return err
	}
	r.say("removing the old driver root %s", dir)
	return r.removeTree(tmp)
}

// inUse says whether a mount shows dir or something in it, wherever that mount is.
func inUse(dir string) (bool, error) {
	dir, err := realPath(dir)
	if err != nil {
		return false, err
	}
	home, err := containing(dir)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(home.Point, dir)
	if err != nil {
		return false, err
	}
	inside := filepath.Join(home.Root, rel) // where dir is in its file system
	mounts, err := readMounts(func(string) bool { return true })
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(mounts, func(m Mount) bool {
		shown := strings.TrimSuffix(m.Root, "//deleted")
		return m.device == home.device && atOrBelow(shown, inside) || atOrBelow(m.Point, dir)
	}), nil
}

// removeTree removes a folder of ours, but never goes into a mount: below a root that somebody mounted a /dev into, that
// would remove the host's devices.
func (r Root) removeTree(dir string) error {
	resolved, err := realPath(dir)
	if err != nil {
		return err
	}
	mounts, err := readMounts(func(point string) bool { return atOrBelow(point, resolved) })
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s is mounted in %s, which cannot be removed before: umount %s", mounts[0].Source, dir, mounts[0].Point)
	}
	return os.RemoveAll(dir)
}

package driverroot

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

// Room returns how many bytes Stage would write now, and how many of other roots it would remove for that if the storage were full. Both
// are 0 when the root is staged already, or shares the image's files. It changes nothing.
func (r *Root) Room() (need, spare uint64) {
	name, err := r.name()
	if r.Storage == "" || err != nil {
		return 0, 0
	}
	roots := filepath.Join(r.Storage, rootsDir)
	if root, err := os.OpenRoot(filepath.Join(roots, name)); err == nil {
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

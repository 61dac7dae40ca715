package driverroot

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

// Space is room in a file system.
type Space struct {
	Bytes  uint64
	Inodes uint64 // files, folders and links
}

// Room returns what Stage would take now, and what of other roots it would remove for that if the
// storage were full. Both are empty when the root is staged already. It changes nothing.
func (r *Root) Room() (need, spare Space) {
	own, err := r.folder(r.Version, r.ID)
	if r.Storage == "" || err != nil {
		return need, spare
	}
	roots := filepath.Dir(own)
	if Check(own, r.Version, r.ID) == nil {
		return need, spare
	}
	need = r.need(roots)
	entries, err := os.ReadDir(roots)
	if err != nil {
		return need, spare
	}
	for _, e := range entries {
		dir := filepath.Join(roots, e.Name())
		used, err := mounttable.Shows(dir)
		if err != nil || used {
			continue
		}
		files, others := treeSize(dir)
		spare.Bytes += files.Bytes
		spare.Inodes += files.Inodes + others
	}
	return need, spare
}

// need returns what a copy of the image takes. A root that shares the image's files has folders and
// links of its own.
func (r *Root) need(roots string) Space {
	dir, layers, reason, err := r.openTarget(roots)
	shares := err == nil && reason == nil
	if err == nil {
		layers.close()
		dir.Close()
	}
	image, _, err := r.view()
	if err != nil {
		return Space{} // Stage says why
	}
	defer image.Close()
	files, others := treeSize(fmt.Sprintf("/proc/self/fd/%d", image.Fd()))
	if shares {
		return Space{Inodes: others}
	}
	return Space{Bytes: files.Bytes, Inodes: files.Inodes + others}
}

// treeSize returns what the files of a tree take, and how many folders and links it has. What a
// staged root does not have, what cannot be read, and what has another name elsewhere, does not
// count.
func treeSize(dir string) (files Space, others uint64) {
	_ = fs.WalkDir(os.DirFS(dir), ".", func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // it does not count
		case d.IsDir() && (leftOut[at] || emptied[at]):
			return fs.SkipDir
		case !d.Type().IsRegular():
			others++
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, at), &st) == nil && st.Nlink == 1 {
			files.Inodes++
			files.Bytes += uint64(st.Blocks) * 512 //nolint:gosec // never negative
		}
		return nil
	})
	return files, others
}

package headers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// margin stays free in addition to the size of the packages: a full disk is worse than missing headers.
const margin = 32 << 20

// checkSpace checks that the packages fit on the disks of the headers and of the store, before anything is
// downloaded.
func (f *fetcher) checkSpace(p *plan) error {
	var tree, store uint64
	for _, pkg := range p.packages {
		// The sizes are those of the files, or in blocks of 1 KiB. A header has 3 KiB on average, and most disks
		// use 4 or 8 KiB for it.
		tree += 2*pkg.unpacked + uint64(pkg.Size) // was checked to be positive when the index was read
		if !f.store.Has(cmp.Or(pkg.SHA256, pkg.SHA512)) {
			store += uint64(pkg.Size) //nolint:gosec // as above
		}
	}
	needs := map[uint64]*SpaceError{} // by file system
	for dir, need := range map[string]uint64{existing(f.Into): tree, f.store.Dir(): store} {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return fmt.Errorf("look for free space: stat %s: %w", dir, err)
		}
		if needs[st.Dev] == nil {
			needs[st.Dev] = &SpaceError{Dir: dir, Need: margin}
		}
		needs[st.Dev].Need += need
	}
	for _, e := range needs {
		var st unix.Statfs_t
		if err := unix.Statfs(e.Dir, &st); err != nil {
			return fmt.Errorf("look for free space: statfs %s: %w", e.Dir, err)
		}
		e.Free = st.Bavail * uint64(st.Bsize) //nolint:gosec // never negative
		if st.Blocks > 0 && e.Free < e.Need { // some network file systems report no blocks
			return e
		}
	}
	return nil
}

// existing returns the folder, or its nearest parent that exists.
func existing(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

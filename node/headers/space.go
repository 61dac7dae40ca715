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
	src := existing(f.Into)
	sameDisk, err := sameDisk(src, f.store.Dir())
	if err != nil {
		return err
	}
	if sameDisk {
		return checkFree(src, tree+store+margin)
	}
	if err := checkFree(f.store.Dir(), store+margin); err != nil {
		return err
	}
	return checkFree(src, tree+margin)
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

func sameDisk(a, b string) (bool, error) {
	var sa, sb unix.Stat_t
	for name, st := range map[string]*unix.Stat_t{a: &sa, b: &sb} {
		if err := unix.Stat(name, st); err != nil {
			return false, fmt.Errorf("look for free space: stat %s: %w", name, err)
		}
	}
	return sa.Dev == sb.Dev, nil
}

func checkFree(dir string, need uint64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look for free space: statfs %s: %w", dir, err)
	}
	free := st.Bavail * uint64(st.Bsize) //nolint:gosec // never negative
	if st.Blocks > 0 && free < need {    // some network file systems report no blocks
		return &SpaceError{Dir: dir, Need: need, Free: free}
	}
	return nil
}

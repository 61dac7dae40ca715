package driverroot

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of mountinfo.
type Mount struct {
	ID, Parent int
	Point      string // where it is
	Source     string // the device or what the file system calls itself: "/dev/vda", "overlay", "proc"
	FSType     string
	Root       string // the folder of the file system that shows at Point; ends in "//deleted" when that was removed
	Shared     bool   // mounts below it are seen by its peers
	device     [2]int // major and minor of the file system
	options    string // of the file system: "rw,lowerdir=..."
}

// Deleted says that the folder which the mount shows was removed where it came from.
func (m Mount) Deleted() bool { return strings.HasSuffix(m.Root, "//deleted") }

// Mounts are the mounts at and below Target, a mount always after those that it covers.
func (r Root) Mounts() ([]Mount, error) {
	target, err := realPath(r.Target)
	if err != nil {
		return nil, fmt.Errorf("look for mounts at %s: %w", r.Target, err)
	}
	mounts, err := readMounts(func(point string) bool { return atOrBelow(point, target) })
	if err != nil {
		return nil, fmt.Errorf("look for mounts at %s: %w", r.Target, err)
	}
	return mounts, nil
}

func atOrBelow(point, dir string) bool {
	return point == dir || dir == "/" || strings.HasPrefix(point, dir+"/")
}

func readMounts(keep func(point string) bool) ([]Mount, error) {
	return readMountsOf("/proc/self/mountinfo", keep)
}

func readMountsOf(file string, keep func(point string) bool) ([]Mount, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) { return !keep(m.Mountpoint), false })
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	mounts := make([]Mount, 0, len(infos))
	for _, m := range infos {
		mounts = append(mounts, Mount{ID: m.ID, Parent: m.Parent, Point: m.Mountpoint, Source: m.Source, FSType: m.FSType, Root: m.Root,
			Shared: strings.Contains(" "+m.Optional, " shared:"), device: [2]int{m.Major, m.Minor}, options: m.VFSOptions})
	}
	return mounts, nil
}

// containing is the mount that a path lies in: the last of those with the longest mount point.
func containing(dir string) (Mount, error) {
	mounts, err := readMounts(func(point string) bool { return atOrBelow(dir, point) })
	if err != nil {
		return Mount{}, err
	}
	var best Mount
	for _, m := range mounts {
		if len(m.Point) >= len(best.Point) {
			best = m
		}
	}
	if best.Point == "" {
		return Mount{}, fmt.Errorf("%s is in no mount that mountinfo shows", dir)
	}
	return best, nil
}

// visibleLeaf is the mount at or below target that has nothing on top of it and that its path leads to: the one to unmount next.
// Covered mounts are reached by paths that lead elsewhere until what covers them is gone.
func visibleLeaf(mounts []Mount, target string) (Mount, bool) {
	inside := map[int]bool{}
	for _, m := range mounts {
		inside[m.ID] = true
	}
	children := map[int][]Mount{}
	for _, m := range mounts {
		parent := m.Parent
		if !inside[parent] || parent == m.ID {
			parent = -1
		}
		children[parent] = append(children[parent], m)
	}
	at, point, found := -1, target, Mount{}
	for range len(mounts) + 1 { // a parent comes before its children, so this ends at the latest here
		next, ok := uncovered(children[at], point)
		if !ok {
			break
		}
		at, point, found = next.ID, next.Point, next
	}
	return found, found.Point != ""
}

// uncovered chooses, of the mounts on one mount that shows at point, one that no other hides: that at point itself hides all
// the rest; one at a/b hides one at a/b/c.
func uncovered(mounts []Mount, point string) (Mount, bool) {
	var best Mount
	for _, m := range mounts {
		switch {
		case best.Point == "", m.Point == best.Point, hides(m.Point, best.Point), m.Point == point:
			best = m
		}
	}
	return best, best.Point != ""
}

func hides(above, below string) bool {
	return above != below && atOrBelow(path.Clean(below), path.Clean(above))
}

// Package mounttable reads the kernel's list of mounts, /proc/PID/mountinfo, and answers which
// mount contains a path, and whether a folder is visible in any mount. It mounts and unmounts
// nothing.
package mounttable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of mountinfo.
type Mount struct {
	ID     int
	Point  string // the mount point
	Source string // the device or the name of the file system: "/dev/vda", "overlay", "proc"
	FSType string
	// the folder of the file system that is visible at Point; ends in "//deleted" when that was
	// removed
	Root     string
	Shared   bool   // mounts below it propagate to its peers
	Slave    bool   // mounts that are made below its master appear below it
	ReadOnly bool   // the mount itself; what its file system is, Options say
	Device   [2]int // major and minor of the file system
	Options  string // of the file system: "rw,lowerdir=..."
}

const self = "/proc/self/mountinfo"

// Deleted says that the source folder of the mount was removed.
func (m Mount) Deleted() bool { return strings.HasSuffix(m.Root, "//deleted") }

// AtOrBelow says whether a path is dir or below it. Both are clean absolute paths without links.
func AtOrBelow(point, dir string) bool {
	return point == dir || dir == "/" || strings.HasPrefix(point, dir+"/")
}

// Read returns the mounts of this process whose mount point keep accepts, with nil all; a mount
// always comes after those that it covers.
func Read(keep func(point string) bool) ([]Mount, error) {
	return ReadFile(self, keep)
}

// Below returns the mounts of this process at and below a folder, whose path may have links.
func Below(dir string) ([]Mount, error) {
	dir, err := RealPath(dir)
	if err != nil {
		return nil, err
	}
	return Read(func(point string) bool { return AtOrBelow(point, dir) })
}

// ReadFile is Read for the mountinfo file of a process.
func ReadFile(file string, keep func(point string) bool) ([]Mount, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(
		f,
		func(m *mountinfo.Info) (skip, stop bool) {
			return keep != nil && !keep(m.Mountpoint), false
		},
	)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	mounts := make([]Mount, 0, len(infos))
	for _, m := range infos {
		mounts = append(
			mounts,
			Mount{ID: m.ID, Point: m.Mountpoint, Source: m.Source, FSType: m.FSType, Root: m.Root,
				Shared: strings.Contains(
					" "+m.Optional,
					" shared:",
				), Slave: strings.Contains(" "+m.Optional, " master:"),
				ReadOnly: strings.HasPrefix(
					m.Options+",",
					"ro,",
				), Device: [2]int{m.Major, m.Minor}, Options: m.VFSOptions},
		)
	}
	return mounts, nil
}

// Containing returns the mount of this process that contains a path.
func Containing(dir string) (Mount, error) { return ContainingIn(self, dir) }

// ContainingIn returns the mount in a mountinfo file that contains a path: the last of those with
// the longest mount point, which is on top.
func ContainingIn(file, dir string) (Mount, error) {
	mounts, err := ReadFile(file, func(point string) bool { return AtOrBelow(dir, point) })
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

// RealPath resolves links in the existing part of path, because mountinfo has no links in its
// paths.
func RealPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		found, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(found, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || at == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// Shows says whether a mount shows dir or a part of it: a mount of this process, or of another one.
// With hostPID all processes of the host are seen, and so are the pods that mounted dir and do not
// follow its unmounts.
func Shows(dir string) (bool, error) {
	dir, err := RealPath(dir)
	if err != nil {
		return false, err
	}
	home, err := Containing(dir)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(home.Point, dir)
	if err != nil {
		return false, err
	}
	inside := filepath.Join(home.Root, rel) // path of dir in its file system
	shows := func(m Mount) bool {
		return m.Device == home.Device && AtOrBelow(strings.TrimSuffix(m.Root, "//deleted"), inside)
	}
	mounts, err := Read(nil)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(
		mounts,
		func(m Mount) bool { return shows(m) || AtOrBelow(m.Point, dir) },
	) {
		return true, nil
	}
	return showsElsewhere(shows)
}

// showsElsewhere looks at one process of each mount namespace. A process that has ended meanwhile
// has no mounts.
func showsElsewhere(shows func(Mount) bool) (bool, error) {
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		return false, err
	}
	seen := map[string]bool{}
	for _, table := range tables {
		namespace, err := os.Readlink(filepath.Join(filepath.Dir(table), "ns/mnt"))
		if err != nil || seen[namespace] {
			continue
		}
		mounts, err := ReadFile(table, nil)
		if err != nil {
			continue
		}
		seen[namespace] = true
		if slices.ContainsFunc(mounts, shows) {
			return true, nil
		}
	}
	return false, nil
}

package driverroot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A staged root shares files with the image's layers by hard links where possible, since 1 GB takes
// 20 s to copy and a link no time. A hard link is another name of the same file: a write to one
// changes the other, for all containers of the image. The root is mounted writable because its
// consumers expect that (modules are added to it, sidecars write into its usr/src). So only files
// are linked that are replaced and never written to: libraries, firmware and data of packages below
// usr/lib and usr/share, and large files below usr, which are programs. Not linked are scripts that
// a person may edit, lists that a tool updates, setuid programs, whose mode an administrator may
// change, and files that others may write to. This package writes only to new files of a root.
//
// The removal of a name does not affect other names, so Prune and the runtime's removal of the
// image are as harmless as with copies. Owner, mode, times and attributes are the layer's own, so a
// link never needs to change them; SELinux labels are those that the runtime set in the layer.
const largeFile = 256 << 10

// neverLinked are folders in which files are created, compiled or updated in place.
var neverLinked = []string{"usr/src/", "usr/lib/modules/", "usr/lib/locale/"}

// alwaysLinked are folders whose small files are linked, too: there are thousands of them.
var alwaysLinked = []string{"usr/lib/", "usr/lib64/", "usr/share/"}

// linkable says whether a file of the image, at this path in its tree, may be the same file in a
// root.
func linkable(at string, st *unix.Stat_t) bool {
	within := func(dir string) bool { return strings.HasPrefix(at, dir) }
	if st.Mode&(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX|0o022) != 0 ||
		slices.ContainsFunc(neverLinked, within) {
		return false
	}
	return slices.ContainsFunc(alwaysLinked, within) || st.Size >= largeFile && within("usr/")
}

// withFolder returns those of the layers that have a folder at this path.
func withFolder(lowers []*os.File, at string) []*os.File {
	var have []*os.File
	for _, lower := range lowers {
		var st unix.Stat_t
		if unix.Fstatat(int(lower.Fd()), at, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
			st.Mode&unix.S_IFMT == unix.S_IFDIR {
			have = append(have, lower)
		}
	}
	return have
}

// find returns the layer whose file the overlay shows at a path, nil for none. It is the same file
// when the inode number and all values of stat are equal. Nobody can set the change time, so a file
// of the writable layer, which keeps the inode number of its origin, never matches, and neither
// does a file that is hidden below it.
func find(lowers []*os.File, at string, shown *unix.Stat_t) *os.File {
	for _, lower := range lowers {
		var st unix.Stat_t
		if err := unix.Fstatat(int(lower.Fd()), at, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(
			err,
			unix.ENOENT,
		) {
			continue
		} else if err != nil || !unchanged(shown, &st) || shown.Ctim != st.Ctim || shown.Nlink != st.Nlink {
			return nil
		}
		return lower
	}
	return nil
}

// unchanged compares everything except what another link changes, and the device, because an
// overlay has device numbers of its own.
func unchanged(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Blocks == b.Blocks &&
		a.Mtim == b.Mtim &&
		a.Uid == b.Uid &&
		a.Gid == b.Gid
}

// linkFile links name in dst to the layer's file and says whether it did. A file that was changed
// or replaced meanwhile is not the image's and gets copied.
func linkFile(lower *os.File, at string, dst *os.File, name string, shown *unix.Stat_t) bool {
	// EXDEV, EPERM, EMLINK: copy it
	if unix.Linkat(int(lower.Fd()), at, int(dst.Fd()), name, 0) != nil {
		return false
	}
	var st unix.Stat_t
	if unix.Fstatat(int(dst.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unchanged(shown, &st) {
		return true
	}
	// if it stays, the copy fails because it cannot be created
	_ = unix.Unlinkat(int(dst.Fd()), name, 0)
	return false
}

// file links or copies a file.
func (c *copier) file(src, dst *os.File, name, at string, st *unix.Stat_t, p subtree) error {
	if linkable(at, st) {
		if lower := find(p.lowers, at, st); lower != nil && linkFile(lower, at, dst, name, st) {
			c.count(st.Size, st.Size)
			return nil
		}
	}
	key := inode{st.Dev, st.Ino}
	if first, ok := c.links[key]; ok {
		return unix.Linkat(c.top, first, int(dst.Fd()), name, 0)
	}
	if st.Nlink > 1 {
		c.links[key] = at
	}
	from, err := openAt(src, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openAt(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.fill(from, to, st), to.Close())
}

// fill copies data and attributes into a new file.
func (c *copier) fill(from, to *os.File, st *unix.Stat_t) error {
	n, err := io.Copy(to, from)
	if err != nil {
		return err
	}
	if n != st.Size {
		return fmt.Errorf("the file changed while it was copied: %d bytes, not %d", n, st.Size)
	}
	c.count(n, 0)
	return c.attributes(from, to, st)
}

func (c *copier) count(bytes, shared int64) {
	c.sum.files++
	c.sum.bytes += bytes
	c.sum.shared += shared
}

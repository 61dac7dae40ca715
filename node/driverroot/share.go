package driverroot

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A staged root shares with the image's layers what it can, since 1 GB takes 20 s to copy and a link no time: by a clone where the
// file system has clones, else by a hard link, else not. A layer is never written to by anybody, and it must stay so:
//
//   - a clone is a file of its own, so any file of a size may be one;
//   - a hard link is the same file under a further name: who writes to the one changes the other, for all containers of the image.
//     So only files are linked that are replaced and never written to, though the root is mounted writable, as its consumers are
//     used to (modules are added to it, sidecars write into its usr/src): libraries, firmware and data of packages, below usr/lib
//     and usr/share, and large ones below usr, which are programs. No script that a person may edit, no list that a tool brings up to
//     date, no setuid program, whose mode somebody may want to change, nothing that others may write to. What this package writes
//     to a root it writes to new files.
//
// Removing a name harms no other, so Prune, and the runtime's removal of the image, are as harmless as with copies. Owner, mode,
// times and attributes are the layer's own, so a link never needs a change of them; SELinux labels are those that the runtime
// gave the layer.
const (
	smallestClone = 64 << 10
	largeFile     = 256 << 10
)

// neverLinked are folders in which files are made, compiled or brought up to date in place.
var neverLinked = []string{"usr/src/", "usr/lib/modules/", "usr/lib/locale/"}

// alwaysLinked are folders whose small files are linked too: there are thousands of them.
var alwaysLinked = []string{"usr/lib/", "usr/lib64/", "usr/share/"}

// linkable says whether a file of the image, at in its tree, may be the same file in a root.
func linkable(at string, st *unix.Stat_t) bool {
	within := func(dir string) bool { return strings.HasPrefix(at, dir) }
	if st.Mode&(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX|0o022) != 0 || slices.ContainsFunc(neverLinked, within) {
		return false
	}
	return slices.ContainsFunc(alwaysLinked, within) || st.Size >= largeFile && within("usr/")
}

// find is the layer that has what the overlay shows at a place, nil for none. It is the same file when inode number and all that
// stat says are equal: times of change can be set by nobody, so a file of the writable layer, which keeps the inode number of
// what it was made of, never passes for that, nor does one that is hidden below it. A file of a layer whose data are in another
// layer (metacopy) has as many bytes, but not as many blocks, and is marked; an overlay without that feature refuses to show such a file.
func (l *layers) find(lowers []*os.File, at string, shown *unix.Stat_t) *os.File {
	for _, lower := range lowers {
		var st unix.Stat_t
		if err := unix.Fstatat(int(lower.Fd()), at, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil || !same(shown, &st) || shown.Ctim != st.Ctim || shown.Nlink != st.Nlink {
			return nil
		}
		if !l.metacopy {
			return lower
		}
		_, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", lower.Fd(), at), "trusted.overlay.metacopy", nil)
		if !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
			return nil
		}
		return lower
	}
	return nil
}

// same compares all but what a further link changes, and the device, for which an overlay has numbers of its own.
func same(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Blocks == b.Blocks && a.Mtim == b.Mtim && a.Uid == b.Uid && a.Gid == b.Gid
}

// linkFile makes name in dst the same file as the layer's, and says whether it is there. What was changed or replaced while this went on
// is not what the image had, and gets copied.
func linkFile(lower *os.File, at string, dst *os.File, name string, shown *unix.Stat_t) bool {
	if unix.Linkat(int(lower.Fd()), at, int(dst.Fd()), name, 0) != nil { // EXDEV, EPERM, EMLINK: copy it
		return false
	}
	var st unix.Stat_t
	if unix.Fstatat(int(dst.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && same(shown, &st) {
		return true
	}
	_ = unix.Unlinkat(int(dst.Fd()), name, 0) // if it stays, the copy fails as it cannot be made
	return false
}

// cloneFile fills an empty file with the blocks of the layer's file, and says whether it did; if not, it is empty still.
func cloneFile(lower *os.File, at string, to *os.File, shown *unix.Stat_t) (bool, error) {
	from, err := openAt(lower, at, unix.O_RDONLY, 0)
	if err != nil {
		return false, nil //nolint:nilerr // it gets copied from where it can be read
	}
	defer from.Close()
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) != nil {
		return false, nil
	}
	var st unix.Stat_t
	if unix.Fstat(int(from.Fd()), &st) == nil && same(shown, &st) && shown.Ctim == st.Ctim {
		return true, nil
	}
	return false, unix.Ftruncate(int(to.Fd()), 0)
}

// canClone tries it with two files that have no name.
func canClone(dir *os.File) bool {
	var pair [2]*os.File
	for i := range pair {
		fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return false
		}
		pair[i] = os.NewFile(uintptr(fd), dir.Name())
		defer pair[i].Close()
	}
	if _, err := pair[0].Write(make([]byte, smallestClone)); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(pair[1].Fd()), int(pair[0].Fd())) == nil
}

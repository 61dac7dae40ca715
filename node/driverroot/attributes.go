package driverroot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// attributes sets the owner, mode, extended attributes and times of an open copy to those of its
// original. The order matters: a change of owner removes the set-user-ID bit and file capabilities.
//
// A lenient copier skips attributes that it may not set: the file then belongs to root and runs
// without the rights of others. No consumer of a driver root depends on owners, and a container
// without the capabilities to set them should not need them.
func (c *copier) attributes(from, to *os.File, st *unix.Stat_t) error {
	fd := int(to.Fd())
	mode := st.Mode & 0o7777
	if err := unix.Fchown(fd, int(st.Uid), int(st.Gid)); err != nil {
		if !c.forgiven(err) {
			return fmt.Errorf("owner: %w", err)
		}
		mode &^= unix.S_ISUID | unix.S_ISGID
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return fmt.Errorf("mode: %w", err)
	}
	if err := c.xattrs(int(from.Fd()), fd); err != nil {
		return fmt.Errorf("extended attributes: %w", err)
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), []unix.Timespec{st.Atim, st.Mtim}, 0); err != nil {
		return fmt.Errorf("times: %w", err)
	}
	return nil
}

func (c *copier) forgiven(err error) bool { return c.lenient && errors.Is(err, unix.EPERM) }

// xattrs copies extended attributes: file capabilities (security.capability) and access control
// lists. It skips SELinux labels, which the policy assigns by the copy's location, and trusted.*,
// which belong to the file system (overlay keeps its own there).
func (c *copier) xattrs(from, to int) error {
	size, err := unix.Flistxattr(from, nil)
	if err != nil || size == 0 {
		if errors.Is(err, unix.ENOTSUP) {
			err = nil
		}
		return err
	}
	list := make([]byte, size)
	size, err = unix.Flistxattr(from, list)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(list[:size]), "\x00") {
		// Overlay counts its own attributes in the size and then leaves them out, so the list may
		// even be empty.
		if name == "" || name == "security.selinux" || strings.HasPrefix(name, "trusted.") {
			continue
		}
		value := make([]byte, 1<<16) // XATTR_SIZE_MAX
		n, err := unix.Fgetxattr(from, name, value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = unix.Fsetxattr(to, name, value[:n], 0)
		if err != nil && !c.forgiven(err) &&
			(!errors.Is(err, unix.ENOTSUP) || name == "security.capability") {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *copier) symlink(src, dst *os.File, name string, st *unix.Stat_t) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(src.Fd()), name, target)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(string(target[:n]), int(dst.Fd()), name); err != nil {
		return err
	}
	return c.stamp(dst, name, st)
}

// node copies a device node or a pipe.
func (c *copier) node(dst *os.File, name string, st *unix.Stat_t) error {
	if err := unix.Mknodat(int(dst.Fd()), name, st.Mode, int(st.Rdev)); err != nil {
		return err
	}
	if err := unix.Fchmodat(int(dst.Fd()), name, st.Mode&0o7777, 0); err != nil {
		return fmt.Errorf("mode: %w", err)
	}
	return c.stamp(dst, name, st)
}

// stamp sets owner and times of what has no content.
func (c *copier) stamp(dst *os.File, name string, st *unix.Stat_t) error {
	if err := unix.Fchownat(int(dst.Fd()), name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil &&
		!c.forgiven(err) {
		return fmt.Errorf("owner: %w", err)
	}
	return unix.UtimesNanoAt(
		int(dst.Fd()),
		name,
		[]unix.Timespec{st.Atim, st.Mtim},
		unix.AT_SYMLINK_NOFOLLOW,
	)
}

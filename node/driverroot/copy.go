package driverroot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

const maxDepth = 64

type inode struct{ dev, ino uint64 }

// copied says what a copy consists of.
type copied struct {
	files  int
	bytes  int64
	shared int64 // bytes of the files that take no space of their own, see share.go
}

// copier copies a tree.
type copier struct {
	image layers
	// paths on which something is mounted that does not belong to the tree: copied without content
	covered map[string]bool
	skip    inode // a folder that is not copied, in case it is in the tree
	lenient bool  // skip owners that this process may not set, see attributes

	ctx   context.Context //nolint:containedctx // of the one call of tree
	at    string          // what is being copied
	top   int             // descriptor of the copy's root
	links map[inode]string
	sum   copied
}

// subtree is a folder of the tree during a copy.
type subtree struct {
	at     string
	depth  int
	lowers []*os.File // the layers that have the folder
}

// tree copies src to dst, both open folders, with owners, modes, times, hard links and extended
// attributes, without leftOut and the content of emptied. Files that are in a layer of the image
// share their data with it. Errors of the kernel are wrapped (unix.ENOSPC).
func (c *copier) tree(ctx context.Context, src, dst *os.File) (copied, error) {
	c.ctx = ctx
	c.top = int(dst.Fd())
	c.links = map[inode]string{}
	err := c.dir(src, dst, subtree{at: ".", lowers: c.image})
	if err != nil {
		err = fmt.Errorf("copy %s: %w", c.at, err)
	}
	return c.sum, err
}

// dir copies the content of src, which is p in the tree, to dst, and then the attributes of src.
func (c *copier) dir(src, dst *os.File, p subtree) error {
	c.at = p.at
	if p.depth > maxDepth {
		return errors.New("folders are nested too deep")
	}
	names, err := src.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(p.at, name)
		if leftOut[at] {
			continue
		}
		c.at = at
		err := c.entry(src, dst, name, at, p)
		if err != nil {
			return err
		}
	}
	c.at = p.at
	var st unix.Stat_t
	err = unix.Fstat(int(src.Fd()), &st)
	if err != nil {
		return err
	}
	return c.attributes(src, dst, &st)
}

func (c *copier) entry(src, dst *os.File, name, at string, p subtree) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(src.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT): // overlay lists marks for removed files, but there is no such file
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return c.folder(src, dst, name, at, &st, p)
	case c.covered[at]:
		return nil
	}
	return c.leaf(src, dst, name, at, &st, p)
}

func (c *copier) leaf(src, dst *os.File, name, at string, st *unix.Stat_t, p subtree) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return c.file(src, dst, name, at, st, p)
	case unix.S_IFLNK:
		return c.symlink(src, dst, name, st)
	case unix.S_IFSOCK: // useless without the process that listens
		return nil
	}
	return c.node(dst, name, st)
}

func (c *copier) folder(src, dst *os.File, name, at string, st *unix.Stat_t, parent subtree) error {
	if c.skip != (inode{}) && c.skip == (inode{st.Dev, st.Ino}) {
		return nil
	}
	p := subtree{at, parent.depth + 1, withFolder(parent.lowers, at)}
	from, err := openAt(src, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	err = unix.Mkdirat(int(dst.Fd()), name, 0o700)
	if err != nil {
		return err
	}
	to, err := openAt(dst, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	if emptied[at] || c.covered[at] {
		return c.attributes(from, to, st)
	}
	return c.dir(from, to, p)
}

func openAt(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if errors.Is(err, unix.EINTR) {
		return openAt(dir, name, flags, mode)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func identity(dir string) inode {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return inode{}
	}
	return inode{st.Dev, st.Ino}
}

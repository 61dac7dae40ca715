package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	maxDepth = 64
	// Copying waits for the disk more than for the processor; more writers than this do not make a disk faster.
	maxWriters = 8
)

type inode struct{ dev, ino uint64 }

// copier copies a tree: one walker makes folders, links and nodes and opens files, a few writers fill the files.
type copier struct {
	stopped func() error // why to stop now: the caller's wish or a writer's error
	writers *errgroup.Group
	top     int // descriptor of the copy's root
	links   map[inode]string
	skip    inode // the storage itself, should it lie in the image
	files   int
	bytes   int64
}

// copyTree copies src to dst, both open folders, with owners, modes, times, hard links and extended attributes, but without
// what is in leftOut and below emptied.
func copyTree(ctx context.Context, src, dst *os.File, skip inode) (files int, bytes int64, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(min(max(2, runtime.NumCPU()), maxWriters))
	stopped := func() error { return context.Cause(ctx) }
	c := &copier{stopped: stopped, writers: g, top: int(dst.Fd()), links: map[inode]string{}, skip: skip}
	walkErr := c.dir(src, dst, ".", 0)
	if err := g.Wait(); err != nil { // first: the walker's error is only its consequence when a writer failed
		return 0, 0, err
	}
	return c.files, c.bytes, walkErr
}

// dir copies what is in src, at rel in the tree, to dst, and then src's own attributes.
func (c *copier) dir(src, dst *os.File, rel string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("copy %s: %w", rel, ErrDeep)
	}
	names, err := src.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("copy %s: %w", rel, err)
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(rel, name)
		if leftOut[at] {
			continue
		}
		if err := c.stopped(); err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		if err := c.entry(src, dst, name, at, depth); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return fmt.Errorf("copy %s: %w", rel, err)
	}
	if err := attributes(src, dst, &st); err != nil {
		return fmt.Errorf("copy %s: %w", rel, err)
	}
	return nil
}

func (c *copier) entry(src, dst *os.File, name, at string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(src.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.folder(src, dst, name, at, depth, &st)
	case unix.S_IFREG:
		err = c.file(src, dst, name, at, &st)
	case unix.S_IFLNK:
		err = symlink(src, dst, name, &st)
	case unix.S_IFSOCK: // means nothing without the process that listens
	default:
		err = node(dst, name, &st)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	return nil
}

func (c *copier) folder(src, dst *os.File, name, at string, depth int, st *unix.Stat_t) error {
	if c.skip != (inode{}) && c.skip == (inode{st.Dev, st.Ino}) {
		return nil
	}
	from, err := openAt(src, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	defer from.Close()
	if err := unix.Mkdirat(int(dst.Fd()), name, 0o700); err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	to, err := openAt(dst, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	defer to.Close()
	if !emptied[at] {
		return c.dir(from, to, at, depth+1)
	}
	if err := attributes(from, to, st); err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	return nil
}

// file opens both sides here, so that no folder has to stay open for a writer; how many are open the writers' limit bounds.
func (c *copier) file(src, dst *os.File, name, at string, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		key := inode{st.Dev, st.Ino}
		if first, ok := c.links[key]; ok {
			return unix.Linkat(c.top, first, int(dst.Fd()), name, 0)
		}
		c.links[key] = at
	}
	from, err := openAt(src, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	to, err := openAt(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		from.Close()
		return err
	}
	c.files++
	c.bytes += st.Size
	c.writers.Go(func() error {
		defer from.Close()
		err := c.stopped()
		if err == nil {
			err = fill(from, to, st)
		}
		if closeErr := to.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		return nil
	})
	return nil
}

// fill copies the data; os.File does it by copy_file_range where it can, which shares the blocks on file systems that are able to.
func fill(from, to *os.File, st *unix.Stat_t) error {
	n, err := io.Copy(to, from)
	if err != nil {
		return err
	}
	if n != st.Size {
		return fmt.Errorf("%w: %d bytes, not %d", ErrChanged, n, st.Size)
	}
	if n >= 1<<20 { // lets the disk begin now; the wait for it comes at the end, once for all
		_ = unix.SyncFileRange(int(to.Fd()), 0, n, unix.SYNC_FILE_RANGE_WRITE) // only speed: not every file system has it
	}
	return attributes(from, to, st)
}

func openAt(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// Package treecopy copies a folder tree with owners, modes, times, hard links and extended attributes. When
// the tree is the merged folder of an overlay, the copy shares the data of files with the overlay's layers,
// by clones or hard links.
//
// It knows nothing of drivers: the caller says what is left out, and syncs and renames the copy. It mounts
// nothing.
package treecopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Errors of Copy, besides the kernel's, which are wrapped (unix.ENOSPC).
var (
	// ErrDeep says that a tree has more nested folders than any driver image.
	ErrDeep = errors.New("folders are nested too deep")
	// ErrChanged says that a file changed while it was copied.
	ErrChanged = errors.New("the file changed while it was copied")
)

const (
	maxDepth = 64
	// Copying waits more for the disk than for the processor; more workers do not make the disk faster.
	maxWorkers = 8
)

type inode struct{ dev, ino uint64 }

// Sum says what a copy consists of.
type Sum struct {
	Files  int
	Bytes  int64
	Shared int64 // bytes of the files that take no space of their own, see share.go
}

// Options of Copy. Paths are relative to the tree, except Storage.
type Options struct {
	LeaveOut map[string]bool // files and folders that are not copied
	Empty    map[string]bool // folders that are copied without their content
	Covered  map[string]bool // paths on which something is mounted that does not belong to the tree: copied without content
	Storage  string          // a folder that is not copied, in case it is in the tree
	Lenient  bool            // skip owners that this process may not set, see attributes
}

// copier copies a tree. Its workers copy folders and the data of files. A goroutine that finds no free worker
// does the work itself, so that no goroutine waits for another one and few files are open.
type copier struct {
	stopped func() error // why to stop now: the caller's context or a worker's error
	workers *errgroup.Group
	image   *Layers
	src     *os.File
	options Options
	top     int   // descriptor of the copy's root
	skip    inode // Options.Storage

	mu    sync.Mutex // protects the fields below
	links map[inode]string
	sum   Sum
}

// Copy copies src to dst, both open folders, with owners, modes, times, hard links and extended attributes.
// It leaves out what the options say. Files that are in a layer of image share their data with it; image
// may have no layers.
func Copy(ctx context.Context, src, dst *os.File, image *Layers, o Options) (Sum, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(min(max(2, runtime.NumCPU()), maxWorkers))
	stopped := func() error { return context.Cause(ctx) }
	c := &copier{stopped: stopped, workers: g, image: image, src: src, options: o, top: int(dst.Fd()),
		links: map[inode]string{}, skip: identity(o.Storage)}
	walkErr := c.dir(src, dst, place{at: ".", lowers: image.lowers})
	if err := g.Wait(); err != nil { // first: if a worker failed, walkErr is only a consequence of that
		return Sum{}, err
	}
	return c.sum, walkErr
}

// do lets a worker call f, or calls it itself.
func (c *copier) do(f func() error) error {
	if c.workers.TryGo(f) {
		return nil
	}
	return f()
}

// dir copies the content of src, which has place p in the tree, to dst, and then the attributes of src.
func (c *copier) dir(src, dst *os.File, p place) error {
	if p.depth > maxDepth {
		return fmt.Errorf("copy %s: %w", p.at, ErrDeep)
	}
	names, err := src.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("copy %s: %w", p.at, err)
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(p.at, name)
		if c.options.LeaveOut[at] {
			continue
		}
		if err := c.stopped(); err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		if err := c.entry(src, dst, name, at, p); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return fmt.Errorf("copy %s: %w", p.at, err)
	}
	if err := c.attributes(src, dst, &st); err != nil {
		return fmt.Errorf("copy %s: %w", p.at, err)
	}
	return nil
}

func (c *copier) entry(src, dst *os.File, name, at string, p place) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(src.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) { // overlay lists marks for removed files, but there is no such file
		return nil
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return c.folder(src, dst, name, at, &st, p)
	}
	if err == nil && !c.options.Covered[at] {
		err = c.leaf(src, dst, name, at, &st, p)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	return nil
}

func (c *copier) leaf(src, dst *os.File, name, at string, st *unix.Stat_t, p place) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return c.file(src, dst, name, at, st, p)
	case unix.S_IFLNK:
		return c.symlink(src, dst, name, st)
	case unix.S_IFSOCK: // useless without the process that listens
		return nil
	case unix.S_IFCHR:
		// The layer's mark for a removed file, which an overlay does not show.
		if p.only && st.Rdev == 0 {
			return nil
		}
	}
	return c.node(dst, name, st)
}

func (c *copier) folder(src, dst *os.File, name, at string, st *unix.Stat_t, parent place) error {
	if c.skip != (inode{}) && c.skip == (inode{st.Dev, st.Ino}) {
		return nil
	}
	from, p, err := c.enter(src, name, at, st, parent)
	if err != nil {
		return fmt.Errorf("copy %s: %w", at, err)
	}
	err = unix.Mkdirat(int(dst.Fd()), name, 0o700)
	var to *os.File
	if err == nil {
		to, err = openAt(dst, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		from.Close()
		return fmt.Errorf("copy %s: %w", at, err)
	}
	return c.do(func() error {
		defer from.Close()
		defer to.Close()
		if !c.options.Empty[at] && !c.options.Covered[at] {
			return c.dir(from, to, p)
		}
		if err := c.attributes(from, to, st); err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		return nil
	})
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

func identity(dir string) inode {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return inode{}
	}
	return inode{st.Dev, st.Ino}
}

func identityOf(f *os.File) inode {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return inode{}
	}
	return inode{st.Dev, st.Ino}
}

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
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	maxDepth = 64
	// Copying waits for the disk more than for the processor; more workers than this do not make a disk faster.
	maxWorkers = 8
)

type inode struct{ dev, ino uint64 }

// copied is what a copy consists of.
type copied struct {
	files  int
	bytes  int64
	shared int64 // bytes of those that take no room, see share.go
}

// copier copies a tree. Folders and the data of files are what its workers do, beside the one who asks for them: who finds no
// worker free does it himself, so that nobody waits for anybody and few files are open.
type copier struct {
	stopped func() error // why to stop now: the caller's wish or a worker's error
	workers *errgroup.Group
	image   *layers
	src     *os.File
	covered map[string]bool // places in src where something is mounted, which is not the image's
	lenient bool            // owners that we may not give are left out, see attributes
	top     int             // descriptor of the copy's root
	skip    inode           // the storage itself, should it lie in the image

	mu    sync.Mutex // of what follows
	links map[inode]string
	sum   copied
}

// copyTree copies src to dst, both open folders, with owners, modes, times, hard links and extended attributes, but without
// what is in leftOut, in the storage, and below emptied and covered places. What image has of it, which may have no layers, is shared
// with that.
func (r Root) copyTree(ctx context.Context, src, dst *os.File, covered map[string]bool, image *layers) (copied, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(min(max(2, runtime.NumCPU()), maxWorkers))
	stopped := func() error { return context.Cause(ctx) }
	c := &copier{stopped: stopped, workers: g, image: image, src: src, covered: covered, lenient: r.NoMounts, top: int(dst.Fd()),
		links: map[inode]string{}, skip: identity(r.Storage)}
	walkErr := c.dir(src, dst, place{at: ".", lowers: image.lowers})
	if err := g.Wait(); err != nil { // first: the walker's error is only its consequence when a worker failed
		return copied{}, err
	}
	return c.sum, walkErr
}

// do calls f by a worker, or itself.
func (c *copier) do(f func() error) error {
	if c.workers.TryGo(f) {
		return nil
	}
	return f()
}

// dir copies what is in src, which is at p in the tree, to dst, and then src's own attributes.
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
		if leftOut[at] {
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
	if errors.Is(err, unix.ENOENT) { // an overlay lists marks for removed files, and has nothing there
		return nil
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return c.folder(src, dst, name, at, &st, p)
	}
	if err == nil && !c.covered[at] {
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
	case unix.S_IFSOCK: // means nothing without the process that listens
		return nil
	case unix.S_IFCHR:
		if p.only && st.Rdev == 0 { // the layer's word that there is nothing, which an overlay does not show
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
		if !emptied[at] && !c.covered[at] {
			return c.dir(from, to, p)
		}
		if err := c.attributes(from, to, st); err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		return nil
	})
}

// file makes the file here, at once, so that the folder's times can be set when all in it is there, and has its data copied.
func (c *copier) file(src, dst *os.File, name, at string, st *unix.Stat_t, p place) error {
	lower := c.shareable(at, st, p)
	if lower != nil && !c.image.clones && linkFile(lower, at, dst, name, st) {
		c.count(st.Size, st.Size)
		return nil
	}
	to, err := c.create(dst, name, at, st)
	if err != nil || to == nil {
		return err
	}
	from, err := openAt(src, name, unix.O_RDONLY, 0)
	if err != nil {
		to.Close()
		return err
	}
	return c.do(func() error {
		defer from.Close()
		err := c.stopped()
		if err == nil {
			err = c.fill(from, to, at, st, lower)
		}
		if closeErr := to.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		return nil
	})
}

// create makes the file, and nothing more where it is one that has been made under another name.
func (c *copier) create(dst *os.File, name, at string, st *unix.Stat_t) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	if st.Nlink == 1 {
		return openAt(dst, name, flags, 0o600)
	}
	c.mu.Lock() // until it is there: another worker may come for its second name
	defer c.mu.Unlock()
	key := inode{st.Dev, st.Ino}
	if first, ok := c.links[key]; ok {
		return nil, unix.Linkat(c.top, first, int(dst.Fd()), name, 0)
	}
	to, err := openAt(dst, name, flags, 0o600)
	if err == nil {
		c.links[key] = at
	}
	return to, err
}

// fill gives a new file its data and attributes.
func (c *copier) fill(from, to *os.File, at string, st *unix.Stat_t, lower *os.File) error {
	if lower != nil && c.image.clones {
		done, err := cloneFile(lower, at, to, st)
		if err != nil {
			return err
		}
		if done {
			c.count(st.Size, st.Size)
			return c.attributes(from, to, st)
		}
	}
	n, err := data(from, to, st.Size)
	if err != nil {
		return err
	}
	if n != st.Size {
		return fmt.Errorf("%w: %d bytes, not %d", ErrChanged, n, st.Size)
	}
	if n >= 1<<20 { // lets the disk begin now; the wait for it comes at the end, once for all
		_ = unix.SyncFileRange(int(to.Fd()), 0, n, unix.SYNC_FILE_RANGE_WRITE) // only speed: not every file system has it
	}
	c.count(n, 0)
	return c.attributes(from, to, st)
}

// data copies. os.File finds the best way for a large file (copy_file_range, splice); a small one is copied before it has looked.
func data(from, to *os.File, size int64) (int64, error) {
	const small = 32 << 10
	if size >= small {
		return io.Copy(to, from)
	}
	text := make([]byte, size+1)
	n, err := io.ReadFull(from, text)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		_, err = to.Write(text[:n])
	}
	return int64(n), err
}

func (c *copier) count(bytes, shared int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.files++
	c.sum.bytes += bytes
	c.sum.shared += shared
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

package driverroot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// file creates the file at once, so that the folder's times can be set when all of its files exist, and lets
// a worker copy the data.
func (c *copier) file(src, dst *os.File, name, at string, st *unix.Stat_t, p place) error {
	if linkable(at, st) {
		if lower := c.image.find(p.lowers, at, st); lower != nil && linkFile(lower, at, dst, name, st) {
			c.count(st.Size, st.Size)
			return nil
		}
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
			err = c.fill(from, to, st)
		}
		if err = errors.Join(err, to.Close()); err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		return nil
	})
}

// create creates the file. If the file was already created under another name, it links that and returns nil.
func (c *copier) create(dst *os.File, name, at string, st *unix.Stat_t) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	if st.Nlink == 1 {
		return openAt(dst, name, flags, 0o600)
	}
	c.mu.Lock() // held until the file exists: another worker may need it for its second name
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

// fill copies data and attributes into a new file.
func (c *copier) fill(from, to *os.File, st *unix.Stat_t) error {
	n, err := io.Copy(to, from)
	if err != nil {
		return err
	}
	if n != st.Size {
		return fmt.Errorf("the file changed while it was copied: %d bytes, not %d", n, st.Size)
	}
	if n >= 1<<20 { // lets the disk begin now; the wait for the disk comes once at the end
		// Not every file system supports it; it is only for speed.
		_ = unix.SyncFileRange(int(to.Fd()), 0, n, unix.SYNC_FILE_RANGE_WRITE)
	}
	c.count(n, 0)
	return c.attributes(from, to, st)
}

func (c *copier) count(bytes, shared int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.files++
	c.sum.bytes += bytes
	c.sum.shared += shared
}

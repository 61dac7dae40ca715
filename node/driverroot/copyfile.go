package driverroot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

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

package lab

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// cpio writes the "newc" format, which the kernel unpacks as its first file system. Each file has a header of
// 110 characters of hexadecimal text, the name and the data; name and data are padded to 4 bytes.
type cpio struct {
	w     io.Writer
	inode uint32
	at    int64
	dirs  []string // already written
	err   error
}

const (
	typeDir  = 0o040000
	typeFile = 0o100000
)

// file adds a regular file, after the folders above it. The name does not begin with a slash.
func (c *cpio) file(name string, perm uint32, data []byte) {
	c.parents(name)
	c.entry(name, typeFile|perm, data)
}

// dir adds a folder.
func (c *cpio) dir(name string) {
	if !slices.Contains(c.dirs, name) {
		c.parents(name)
		c.dirs = append(c.dirs, name)
		c.entry(name, typeDir|0o755, nil)
	}
}

func (c *cpio) parents(name string) {
	if parent := path.Dir(name); parent != "." {
		c.dir(parent)
	}
}

// close writes the end mark and returns the first error of all writes.
func (c *cpio) close() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpio) entry(name string, mode uint32, data []byte) {
	c.inode++
	links := 1
	if mode&typeDir != 0 {
		links = 2
	}
	var header strings.Builder
	header.WriteString("070701")
	// inode mode uid gid links time size device(2) special-device(2) name-size check
	for _, v := range []uint32{c.inode, mode, 0, 0, uint32(links), 0, uint32(len(data)), 0, 0, 0, 0, uint32(len(name) + 1), 0} {
		fmt.Fprintf(&header, "%08X", v)
	}
	c.write([]byte(header.String() + name + "\x00"))
	c.pad()
	c.write(data)
	c.pad()
}

func (c *cpio) write(b []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.w.Write(b)
		c.at += int64(n)
	}
}

func (c *cpio) pad() { c.write(make([]byte, (4-c.at%4)%4)) }

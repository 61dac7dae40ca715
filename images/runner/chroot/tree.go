//go:build linux

package chroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/driver-container/driver-container/images/rootfs"
)

// maxLinks bounds a chain of symbolic links, as the kernel does (MAXSYMLINKS).
const maxLinks = 40

// tree is a root that is being unpacked. It resolves paths through the root's links as in a chroot, where an
// absolute link starts at the root. The safety does not depend on this: os.Root prevents that a path leaves
// the folder.
type tree struct {
	root         *os.Root
	currentLayer map[string]bool   // paths of the current layer and their parents: whiteouts do not touch them
	known        map[string]string // folder as written -> folder without links; both clean and relative
	last         *os.Root          // the folder at lastAt: an archive lists its members folder by folder
	lastAt       string
	count        int
	bytes        int64
	buf          []byte
}

func (t *tree) close() error {
	t.known = nil
	if t.last == nil {
		return nil
	}
	err := t.last.Close()
	t.last = nil
	return err
}

// resolve follows every link of a folder's path and creates missing folders. The result has no links in it;
// "." is the root.
func (t *tree) resolve(p string) (string, error) {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if at, ok := t.known[p]; ok {
		return at, nil
	}
	done, rest, links := ".", p, 0
	for rest != "" {
		part, after, _ := strings.Cut(rest, "/")
		rest = after
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := t.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = t.folder(next, 0o755)
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			target, err := t.root.Readlink(next)
			if links++; err == nil && links > maxLinks {
				err = fmt.Errorf("%s: too many links", p)
			}
			if err != nil {
				return "", err
			}
			if path.IsAbs(target) {
				done = "."
			}
			rest = target + "/" + rest
			continue
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%w: /%s is no folder", rootfs.ErrUnsafePath, next)
		}
		if err != nil {
			return "", err
		}
		done = next
	}
	if t.known == nil {
		t.known = map[string]string{}
	}
	t.known[p] = done
	return done, nil
}

// parent returns the folder that contains a resolved path, and the path's last name.
func (t *tree) parent(p string) (*os.Root, string, error) {
	dir := path.Dir(p)
	if t.last != nil && t.lastAt == dir {
		return t.last, path.Base(p), nil
	}
	d, err := t.root.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	if t.last != nil {
		err = t.last.Close()
	}
	t.last, t.lastAt = d, dir
	return d, path.Base(p), err
}

// markCurrent records that the current layer has something at p.
func (t *tree) markCurrent(p string) {
	for ; p != "." && !t.currentLayer[p] && t.currentLayer != nil; p = path.Dir(p) {
		t.currentLayer[p] = true
	}
}

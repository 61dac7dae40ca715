package workdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removingPrefix is the prefix of the name of a folder that is being removed.
const removingPrefix = "gone-"

// remove deletes a folder of top with everything in it. It moves each folder below it up into it before
// it reads that folder, so no path is ever longer than two names, however deep the tree is, and no link is
// followed. The kernel refuses to move or remove a mount point: the removal then fails and touches nothing
// that is mounted.
func remove(top *os.Root, name string) error {
	if err := top.Chmod(name, 0o700); err != nil {
		return err
	}
	dir, err := top.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	r := remover{dir: dir}
	for {
		list, err := r.list(".")
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return top.Remove(name)
		}
		for _, d := range list {
			if d.IsDir() && !strings.HasPrefix(d.Name(), removingPrefix) {
				err = r.moveUp(d.Name())
			} else {
				err = r.removeEntry(d)
			}
			if err != nil {
				return fmt.Errorf("remove %s: %w", path.Join(name, d.Name()), err)
			}
		}
	}
}

type remover struct {
	dir  *os.Root
	next int
}

// removeEntry removes an entry of the folder itself. Folders in that entry move up beside it.
func (r *remover) removeEntry(d fs.DirEntry) error {
	if !d.IsDir() {
		return r.dir.Remove(d.Name())
	}
	if err := r.dir.Chmod(d.Name(), 0o700); err != nil { // a step may have made it unreadable
		return err
	}
	for {
		list, err := r.list(d.Name())
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return r.dir.Remove(d.Name())
		}
		for _, below := range list {
			p := path.Join(d.Name(), below.Name())
			if !below.IsDir() {
				err = r.dir.Remove(p)
			} else {
				err = r.moveUp(p)
			}
			if err != nil {
				return err
			}
		}
	}
}

// moveUp moves a folder up, or removes it when it is empty. A user other than root must own and be able to
// write a folder to move it.
func (r *remover) moveUp(p string) error {
	if r.dir.Remove(p) == nil {
		return nil
	}
	if err := r.dir.Chmod(p, 0o700); err != nil {
		return err
	}
	for {
		r.next++
		err := r.dir.Rename(p, removingPrefix+strconv.Itoa(r.next))
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
}

// list returns some of a folder's entries, none when it is empty.
func (r *remover) list(name string) ([]fs.DirEntry, error) {
	f, err := r.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(512)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return list, err
}

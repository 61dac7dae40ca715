package buildtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/kmod"
)

// maxTrees bounds how many folders one tree of headers may lead to. Debian's leads to three.
const maxTrees = 16

// Copy copies the headers, with every folder that they link to, into the new folder dir, which must
// not exist and serves as their root. It returns the headers as found there. Headers outside the
// container's own root need this, such as the host's below /proc/1/root: make cannot work in a
// folder whose path does not begin at make's root, and such a folder cannot be bound into another
// mount namespace. The headers of one kernel are about 60 MB. After an error nothing is left.
func (h Headers) Copy(ctx context.Context, dir string) (_ Headers, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(
				fmt.Errorf(
					"copy the headers of kernel %s from the %s: %w",
					h.Release,
					h.Origin,
					err,
				),
				os.RemoveAll(dir),
			)
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Headers{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Headers{}, err
	}
	defer root.Close()
	done := map[string]bool{}
	for todo := []string{h.inRoot(h.Build), h.inRoot(h.Source)}; len(todo) > 0; todo = todo[1:] {
		tree := todo[0]
		if done[tree] {
			continue
		}
		if len(done) == maxTrees {
			return Headers{}, fmt.Errorf("they lead to more than %d other folders", maxTrees)
		}
		done[tree] = true
		// Links stay as they are; the folders outside of the tree that they lead to are copied too.
		err := copyAll(
			ctx,
			filepath.Join(h.RootDir, tree),
			root,
			tree,
			func(_ *os.Root, path string) error {
				if outside := h.linkedFolder(tree, path); outside != "" {
					todo = append(todo, outside)
				}
				return nil
			},
		)
		if err != nil {
			return Headers{}, err
		}
	}
	if err := h.linkBuild(dir); err != nil {
		return Headers{}, err
	}
	return Find(h.Release, []Root{{Dir: dir, Name: h.Origin}})
}

// inRoot converts a path of this process to one in the headers' root, without a leading slash.
func (h Headers) inRoot(path string) string {
	return strings.Trim(strings.TrimPrefix(path, strings.TrimSuffix(h.RootDir, "/")), "/")
}

// CopyTree copies folders, regular files, and links that stay inside the tree, from src into the
// folder to of dst. It clones files where the file system can share blocks, and else copies them.
// What is there already stays.
func CopyTree(ctx context.Context, src string, dst *os.Root, to string) error {
	return copyAll(ctx, src, dst, to, func(root *os.Root, path string) error {
		_, err := root.Stat(path) // os.Root refuses a link that leads out of the tree
		return err
	})
}

// copyAll is CopyTree with a call of link for each symbolic link.
func copyAll(
	ctx context.Context,
	from string,
	into *os.Root,
	to string,
	link func(src *os.Root, path string) error,
) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := into.MkdirAll(to, 0o755); err != nil {
		return err
	}
	dst, err := into.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return fs.WalkDir(src.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch e.Type() {
		case fs.ModeDir:
			err = dst.MkdirAll(path, 0o755)
		case 0:
			err = copyFile(src, dst, path)
		case fs.ModeSymlink:
			err = link(src, path)
			if err != nil {
				return err
			}
			err = copyLink(src, dst, path)
		default:
			err = fmt.Errorf(
				"%s is neither a file nor a folder nor a link",
				filepath.Join(src.Name(), path),
			)
		}
		if errors.Is(err, fs.ErrExist) { // an earlier tree of headers lies inside this one
			return nil
		}
		return err
	})
}

func copyLink(src, dst *os.Root, path string) error {
	target, err := src.Readlink(path)
	if err != nil {
		return err
	}
	return dst.Symlink(target, path)
}

// linkedFolder returns the folder outside of tree that a link in tree leads to (for a link to a
// file, the file's folder); "" if there is none.
func (h Headers) linkedFolder(tree, link string) string {
	path, err := kmod.Within(h.RootDir, filepath.Join(tree, link))
	if err != nil {
		return ""
	}
	if kmod.IsFile(path) {
		path = filepath.Dir(path)
	}
	path = h.inRoot(path)
	if path == tree || strings.HasPrefix(path, tree+"/") || !strings.HasPrefix(path, "usr/") ||
		strings.Count(path, "/") < 2 {
		return "" // inside the tree, or not a folder of headers: never all of /usr/lib
	}
	return path
}

// linkBuild creates lib/modules/<release>/build and source, so that Find finds the copied trees
// there.
func (h Headers) linkBuild(dir string) error {
	modulesDir := filepath.Join(dir, "lib/modules", h.Release)
	if err := os.MkdirAll(modulesDir, 0o755); err != nil {
		return err
	}
	for name, path := range map[string]string{"build": h.Build, "source": h.Source} {
		if err := os.Symlink("/"+h.inRoot(path), filepath.Join(modulesDir, name)); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// copyFile copies a regular file of a tree, with its executable bits, to the same path of another
// one, where it must not exist.
func copyFile(src, dst *os.Root, path string) error {
	in, err := src.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := dst.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|info.Mode()&0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // by copy_file_range, so that file systems that can share the blocks
	return errors.Join(err, out.Close())
}

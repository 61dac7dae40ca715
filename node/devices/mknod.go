package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const capsDir = "nvidia-caps"

// ensure makes w and its link unless they are there. The Node is filled in as far as it came.
func (n Nodes) ensure(w wanted) (Node, error) {
	node := Node{Path: filepath.Join(n.Dev, w.name), Major: w.major, Minor: w.minor}
	if !isDevice(node.Path, w.dev()) {
		if err := replaceNode(node.Path, w); err != nil {
			return node, err
		}
		node.Made = true
	}
	link := filepath.Join(n.Dev, "char", fmt.Sprintf("%d:%d", w.major, w.minor))
	made, err := ensureLink(link, "../"+w.name, w.dev())
	if made {
		node.Link = link
	}
	return node, err
}

// isDevice says whether path itself, not what a link there leads to, is the character device dev.
func isDevice(path string, dev uint64) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev
}

// replaceNode makes the node under a temporary name and renames it, so that no program ever finds nothing, or a node of the
// wrong mode, in its place.
func replaceNode(path string, w wanted) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an earlier start left: %w", err)
	}
	err := unix.Mknod(tmp, unix.S_IFCHR|w.owner.mode, int(w.dev()))
	if err != nil {
		return fmt.Errorf("mknod %d:%d: %w (the container has to be privileged, or needs CAP_MKNOD)", w.major, w.minor, err)
	}
	err = os.Chown(tmp, w.owner.uid, w.owner.gid)
	if err == nil {
		err = os.Chmod(tmp, fs.FileMode(w.owner.mode)) // mknod left out what the umask has
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the error to tell is the first
		return err
	}
	return nil
}

// ensureLink makes link -> target unless something there leads to the right device already.
func ensureLink(link, target string, dev uint64) (bool, error) {
	var st unix.Stat_t
	if unix.Stat(link, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return false, err
	}
	tmp := link + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("remove what an earlier start left: %w", err)
	}
	if err := os.Symlink(target, tmp); err != nil {
		return false, err
	}
	if err := os.Rename(tmp, link); err != nil {
		_ = os.Remove(tmp) // the error to tell is the first
		return false, err
	}
	return true, nil
}

// Remove takes away what Create made and is still as it was made; what somebody put in its place stays. Nodes outside of Dev are
// refused: the list may come from a file. It goes on after an error and returns all of them.
func (n Nodes) Remove(created []Node) error {
	var errs []error
	for _, node := range slices.Backward(created) {
		if err := n.remove(node); err != nil {
			errs = append(errs, fmt.Errorf("remove device node %s: %w", node.Path, err))
		}
	}
	if err := unix.Rmdir(filepath.Join(n.Dev, capsDir)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		errs = append(errs, fmt.Errorf("remove %s: %w", filepath.Join(n.Dev, capsDir), err))
	}
	return errors.Join(errs...)
}

func (n Nodes) remove(node Node) error {
	name, err := filepath.Rel(n.Dev, node.Path)
	if err != nil || !filepath.IsLocal(name) {
		return fmt.Errorf("it is not in %s", n.Dev)
	}
	if node.Link != "" {
		if want := filepath.Join(n.Dev, "char", fmt.Sprintf("%d:%d", node.Major, node.Minor)); node.Link != want {
			return fmt.Errorf("its link %s is not %s", node.Link, want)
		}
		if target, err := os.Readlink(node.Link); err == nil && target == "../"+name {
			if err := os.Remove(node.Link); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if !node.Made || !isDevice(node.Path, unix.Mkdev(node.Major, node.Minor)) {
		return nil
	}
	if err := os.Remove(node.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

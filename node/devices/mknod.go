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

// ensure creates the node and its link unless they exist.
func (n Nodes) ensure(w wantedNode) error {
	node := n.missing(w)
	if node.Made {
		if err := replaceNode(node.Path, w); err != nil {
			return err
		}
	}
	if node.Link == "" {
		return nil
	}
	return makeLink(node.Link, "../"+w.name)
}

// missing describes what ensure would create.
func (n Nodes) missing(w wantedNode) Node {
	node := Node{Path: filepath.Join(n.Dev, w.name), Major: w.major, Minor: w.minor}
	node.Made = !isDevice(node.Path, w.dev())
	link := filepath.Join(n.Dev, "char", fmt.Sprintf("%d:%d", w.major, w.minor))
	var st unix.Stat_t
	if unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != w.dev() {
		node.Link = link
	}
	return node
}

// isDevice says whether path itself (not the target of a link) is the character device dev.
func isDevice(path string, dev uint64) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev
}

// replaceNode creates the node under a temporary name and renames it, so that no program ever finds the node
// missing or with a wrong mode.
func replaceNode(path string, w wantedNode) error {
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
		err = os.Chmod(tmp, fs.FileMode(w.owner.mode)) // mknod applied the umask
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error is the one to report
		return err
	}
	return nil
}

// makeLink creates link -> target, or replaces what is there.
func makeLink(link, target string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	tmp := link + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an earlier start left: %w", err)
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, link); err != nil {
		_ = os.Remove(tmp) // the first error is the one to report
		return err
	}
	return nil
}

// Remove removes the nodes and links that Create recorded, if they are unchanged; it keeps what others put in
// their place. It refuses nodes outside of Dev, because the list may come from a file. It continues after an
// error and returns all errors.
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

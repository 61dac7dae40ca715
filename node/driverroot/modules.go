package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Module is the file of a kernel module, as package kmod/kbuild returns it.
type Module struct {
	Path   string // .ko file
	SHA256 string // hex
}

const (
	listName   = ".modules" // in the folder of the modules: the list of modules by digest
	depmodWait = time.Minute
	maxList    = 1 << 16
)

var releaseFormat = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$`)

// AddModules puts kernel modules into the root, below lib/modules/<release>/updates/nvidia, with an index, so
// that `chroot <root> modprobe nvidia` finds them, which the operator's validator and its sidecars run. It
// may be called before and after Mount. It does nothing when the same modules are there.
func (s Staged) AddModules(ctx context.Context, release string, files []Module) error {
	if !releaseFormat().MatchString(release) {
		return fmt.Errorf("add modules to the driver root: %q is not a kernel release", release)
	}
	if err := s.addModules(ctx, release, files); err != nil {
		return fmt.Errorf("add modules for kernel %s to the driver root: %w", release, err)
	}
	return nil
}

func (s Staged) addModules(ctx context.Context, release string, files []Module) error {
	view, err := s.view()
	if err != nil {
		return err
	}
	defer view.Close()
	root, err := rootAt(view)
	if err != nil {
		return err
	}
	defer root.Close()
	dir := path.Join("lib/modules", release, "updates/nvidia")
	list := listOf(files)
	if text, err := bounded.FSFile(root.FS(), path.Join(dir, listName), maxList); err == nil && string(text) == list && allThere(root, dir, files) {
		return nil
	}
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := addFile(root, dir, f.Path); err != nil {
			return err
		}
	}
	if err := s.index(ctx, view, root, release); err != nil {
		return err
	}
	return newFile(root, path.Join(dir, listName), []byte(list))
}

// view opens the root itself and not its path: the host's /lib/modules may be mounted in the container, and
// must not be changed. In a folder on the storage nothing is mounted.
func (s Staged) view() (*os.File, error) {
	if s.Root.NoMounts {
		return os.Open(s.Dir)
	}
	return bareView(s.Dir)
}

func listOf(files []Module) string {
	lines := make([]string, 0, len(files))
	for _, f := range files {
		lines = append(lines, f.SHA256+"  "+filepath.Base(f.Path)+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func allThere(root *os.Root, dir string, files []Module) bool {
	return !slices.ContainsFunc(files, func(f Module) bool {
		have, err := root.Stat(path.Join(dir, filepath.Base(f.Path)))
		if err != nil {
			return true
		}
		want, err := os.Stat(f.Path)
		return err != nil || have.Size() != want.Size()
	})
}

// addFile links or copies under a temporary name, so that modprobe never reads an incomplete module. An
// existing file of the temporary name is removed and not written to, because it may be a link.
func addFile(root *os.Root, dir, from string) (err error) {
	name := path.Join(dir, filepath.Base(from))
	tmp := name + ".tmp"
	if err := removeIfExists(root, tmp); err != nil {
		return err
	}
	if linkModule(root, from, tmp) {
		if err := removeIfExists(root, name); err != nil { // a rename of a file to another name of the same file does nothing
			return err
		}
		return root.Rename(tmp, name)
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Sync()
	}
	err = errors.Join(err, dst.Close())
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return nil
}

// linkModule creates another name for a module that the root itself has: a module of the image has the same
// path in a staged root, with the same size and time.
func linkModule(root *os.Root, from, name string) bool {
	want, err := os.Stat(from)
	if err != nil {
		return false
	}
	inRoot := strings.TrimPrefix(filepath.Clean(from), "/")
	have, err := root.Lstat(inRoot)
	if err != nil || !have.Mode().IsRegular() || have.Size() != want.Size() || !have.ModTime().Equal(want.ModTime()) {
		return false
	}
	return root.Link(inRoot, name) == nil
}

func removeIfExists(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// index creates modules.dep and the other index files with the image's own depmod. An image without one has no
// modprobe either. The kernel's own modules are not in the root: they are loaded before NVIDIA's.
func (s Staged) index(ctx context.Context, view *os.File, root *os.Root, release string) error {
	for _, depmod := range []string{"/sbin/depmod", "/usr/sbin/depmod"} {
		if _, err := root.Lstat(strings.TrimPrefix(depmod, "/")); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, depmodWait)
		defer cancel()
		cmd := s.depmod(ctx, view, depmod, release)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, lastLines(out))
		}
		return nil
	}
	return nil
}

// depmod runs with the served root as its root directory or, where the process may not change its root, from
// the image of which the root is a copy.
func (s Staged) depmod(ctx context.Context, view *os.File, program, release string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, "-a", release)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.Root.NoMounts {
		cmd = exec.CommandContext(ctx, filepath.Join(s.Root.Image, program), "-a", "-b", s.Dir, release)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	} else { // in the child, too, the path stands for the open folder until the program starts
		cmd.SysProcAttr.Chroot = fmt.Sprintf("/proc/self/fd/%d", view.Fd())
	}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	return cmd
}

func lastLines(out []byte) string {
	const most = 1000
	text := strings.TrimSpace(string(out))
	return text[max(0, len(text)-most):]
}

package driverroot

import (
	"cmp"
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
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

const (
	listName   = ".modules" // in the folder of the modules: the list of modules by digest
	depmodWait = time.Minute
	maxList    = 1 << 16
)

var releaseFormat = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$`)

// AddModules puts kernel modules into a root (see Mount), below
// lib/modules/<release>/updates/nvidia, with an index, so that `chroot <root> modprobe nvidia`
// finds them, which the operator's validator and its sidecars run. It may be called before and
// after Mount. It does nothing when the same modules are there.
func (r *Root) AddModules(ctx context.Context, dir string, files []kbuild.File) error {
	if !releaseFormat().MatchString(r.Release) {
		return fmt.Errorf("add modules to the driver root: %q is not a kernel release", r.Release)
	}
	if err := r.addModules(ctx, cmp.Or(dir, r.Image), files); err != nil {
		return fmt.Errorf("add modules for kernel %s to the driver root: %w", r.Release, err)
	}
	return nil
}

// optionsFile has the last name of modprobe.d, because the last value of a parameter counts.
const optionsFile = "etc/modprobe.d/zz-nvidia-driver.conf"

// SetOptions writes the parameters of modules into a root (see Mount), so that modprobe inside of
// it loads them as this program does. It does nothing when the same ones are there.
func (r *Root) SetOptions(dir string, options kmod.Options) error {
	err := r.setOptions(cmp.Or(dir, r.Image), options)
	if err != nil {
		return fmt.Errorf("write %s in the driver root: %w", optionsFile, err)
	}
	return nil
}

func (r *Root) setOptions(base string, options kmod.Options) error {
	text, err := options.Text()
	if err != nil {
		return err
	}
	root, err := r.bareRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	if text != "" {
		text = "# written by driver-entrypoint: the parameters of this node's driver\n" + text
	}
	have, err := bounded.FSFile(root.FS(), optionsFile, maxList)
	known := err == nil || errors.Is(err, fs.ErrNotExist)
	if known && string(have) == text {
		return nil
	}
	err = root.MkdirAll(path.Dir(optionsFile), 0o755)
	if err != nil {
		return err
	}
	return writeFile(root, optionsFile, text)
}

func (r *Root) addModules(ctx context.Context, base string, files []kbuild.File) error {
	view, err := r.bare(base)
	if err != nil {
		return err
	}
	defer view.Close()
	root, err := rootAt(view)
	if err != nil {
		return err
	}
	defer root.Close()
	dir := path.Join("lib/modules", r.Release, "updates/nvidia")
	list := listOf(files)
	if text, err := bounded.FSFile(root.FS(), path.Join(dir, listName), maxList); err == nil &&
		string(text) == list &&
		allThere(root, dir, files) {
		return nil
	}
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := addFile(root, base, dir, f.Path); err != nil {
			return err
		}
	}
	if err := r.index(ctx, base, view, root); err != nil {
		return err
	}
	return writeFile(root, path.Join(dir, listName), list)
}

func listOf(files []kbuild.File) string {
	lines := make([]string, 0, len(files))
	for _, f := range files {
		lines = append(lines, f.SHA256+"  "+filepath.Base(f.Path)+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func allThere(root *os.Root, dir string, files []kbuild.File) bool {
	return !slices.ContainsFunc(files, func(f kbuild.File) bool {
		have, err := root.Stat(path.Join(dir, filepath.Base(f.Path)))
		if err != nil {
			return true
		}
		want, err := os.Stat(f.Path)
		return err != nil || have.Size() != want.Size()
	})
}

// addFile links or copies a module.
func addFile(root *os.Root, base, dir, from string) error {
	name := path.Join(dir, filepath.Base(from))
	return inOneStep(root, name, func(tmp string) error {
		if !linkModule(root, base, from, tmp) {
			return copyModule(root, from, tmp)
		}
		// a rename of a file to another name of the same file does nothing
		return root.RemoveAll(name)
	})
}

func copyModule(root *os.Root, from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Sync(), dst.Close())
}

// linkModule creates another name for a module that the root itself has, which is at base: a module
// of the image has the same path in a staged root, with the same size and time.
func linkModule(root *os.Root, base, from, name string) bool {
	want, err := os.Stat(from)
	if err != nil {
		return false
	}
	inRoot := strings.TrimPrefix(strings.TrimPrefix(filepath.Clean(from), base), "/")
	have, err := root.Lstat(inRoot)
	if err != nil || !have.Mode().IsRegular() || have.Size() != want.Size() ||
		!have.ModTime().Equal(want.ModTime()) {
		return false
	}
	return root.Link(inRoot, name) == nil
}

// index creates modules.dep and the other index files with the image's own depmod. An image without
// one has no modprobe either. The kernel's own modules are not in the root: they are loaded before
// NVIDIA's.
func (r *Root) index(ctx context.Context, base string, view *os.File, root *os.Root) error {
	for _, depmod := range []string{"/sbin/depmod", "/usr/sbin/depmod"} {
		if _, err := root.Lstat(strings.TrimPrefix(depmod, "/")); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, depmodWait)
		defer cancel()
		cmd := r.depmod(ctx, base, view, depmod)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, lastLines(out))
		}
		return nil
	}
	return nil
}

// depmod runs with the served root as its root directory or, where the process may not change its
// root, from the image of which the root is a copy.
func (r *Root) depmod(ctx context.Context, base string, view *os.File, program string) *exec.Cmd {
	args := []string{"-a", r.Release}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if r.NoMounts {
		program = filepath.Join(r.Image, program)
		args = []string{"-a", "-b", base, r.Release}
	} else { // in the child, too, the path stands for the open folder until the program starts
		attributes.Chroot = fmt.Sprintf("/proc/self/fd/%d", view.Fd())
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = attributes
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
